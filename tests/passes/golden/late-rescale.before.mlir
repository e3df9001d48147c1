!t0 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t1 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t2 = !ren.encrypted<level=0, scale=s0^2, shape=4, frame=4, parts=3, domain=ntt, batch=none>
!t3 = !ren.encrypted<level=0, scale=s0^2, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t4 = !ren.encrypted<level=1, scale=s1, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t5 = !ren.plaintext<level=0, scale=s0, shape=4, frame=4, use=multiply>
!t6 = !ren.plaintext<level=1, scale=s1, shape=4, frame=4, use=add>
!t7 = !ren.encrypted<level=1, scale=s1, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t8 = !ren.message<kind=static, shape=scalar>
!t9 = !ren.plaintext<level=1, scale=s1, shape=4, frame=4, use=multiply>
!t10 = !ren.encrypted<level=1, scale=s1^2, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t11 = !ren.encrypted<level=2, scale=s2, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t12 = !ren.plaintext<level=0, scale=s0, shape=4, frame=4, use=add>
!t13 = !ren.encrypted<level=2, scale=s2, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t14 = !ren.plaintext<use=multiply>
!t15 = !ren.encrypted<shape=4, frame=4, parts=2, domain=ntt, batch=none>
builtin.module attributes {ren.schema_version = "1", ren.dialect_version = "0.1"} {
  func.func @main(%x: !t0, %y: !t0, %w: !ren.message, %g: !ren.plaintext) -> !t15 {
    %0 = "ren.ckks.to_ntt"(%x) : (!t0) -> !t1
    %1 = "ren.ckks.to_ntt"(%y) : (!t0) -> !t1
    %2 = "ren.ckks.multiply"(%0, %1) : (!t1, !t1) -> !t2
    %3 = "ren.ckks.relinearize"(%2) : (!t2) -> !t3
    %4 = "ren.ckks.rescale"(%3) <{condition = "always"}> : (!t3) -> !t4
    %5 = "ren.ckks.rotate"(%x) <{shift = 1 : i64}> : (!t0) -> !t0
    %6 = "ren.ckks.prepare.multiply.message"(%w, %5) <{operation = "multiply", source_role = "message", scale_mode = "default_scale"}> : (!ren.message, !t0) -> !t5
    %7 = "ren.ckks.to_ntt"(%5) : (!t0) -> !t1
    %8 = "ren.ckks.multiply_plaintext"(%7, %6) <{rescale_condition = "always"}> : (!t1, !t5) -> !t3
    %9 = "ren.ckks.rescale"(%8) <{condition = "always"}> : (!t3) -> !t4
    %10 = "ren.ckks.add"(%4, %9) : (!t4, !t4) -> !t4
    %11 = "ren.ckks.rotate"(%x) <{shift = 2 : i64}> : (!t0) -> !t0
    %12 = "ren.ckks.to_ntt"(%11) : (!t0) -> !t1
    %13 = "ren.ckks.multiply"(%12, %1) : (!t1, !t1) -> !t2
    %14 = "ren.ckks.relinearize"(%13) : (!t2) -> !t3
    %15 = "ren.ckks.rescale"(%14) <{condition = "always"}> : (!t3) -> !t4
    %16 = "ren.ckks.subtract"(%10, %15) : (!t4, !t4) -> !t4
    %17 = "ren.ckks.prepare.add.message"(%w, %16) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t4) -> !t6
    %18 = "ren.ckks.add_plaintext"(%16, %17) : (!t4, !t6) -> !t4
    %19 = "ren.ckks.align"(%y) <{level = 1 : i64}> : (!t0) -> !t7
    %20 = "ren.ckks.subtract"(%18, %19) : (!t4, !t7) -> !t4
    %21 = "ren.ckks.multiply_integer"(%y) <{value = 3 : i64}> : (!t0) -> !t0
    %22 = "ren.ckks.align"(%21) <{level = 1 : i64}> : (!t0) -> !t7
    %23 = "ren.ckks.add"(%20, %22) : (!t4, !t7) -> !t4
    %24 = "ren.constant"() <{value = 2.500000e-01 : f64}> : () -> !t8
    %25 = "ren.ckks.prepare.multiply.static"(%24, %23) <{operation = "multiply", source_role = "static", scale_mode = "default_scale"}> : (!t8, !t4) -> !t9
    %26 = "ren.ckks.multiply_plaintext"(%23, %25) <{rescale_condition = "always"}> : (!t4, !t9) -> !t10
    %27 = "ren.ckks.rescale"(%26) <{condition = "always"}> : (!t10) -> !t11
    %28 = "ren.ckks.prepare.add.message"(%w, %x) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t0) -> !t12
    %29 = "ren.ckks.add_plaintext"(%x, %28) : (!t0, !t12) -> !t0
    %30 = "ren.ckks.align"(%29) <{level = 2 : i64}> : (!t0) -> !t13
    %31 = "ren.ckks.add"(%27, %30) : (!t11, !t13) -> !t11
    %32 = "ren.ckks.prepare.multiply.plaintext"(%g, %31) <{operation = "multiply", source_role = "plaintext", scale_mode = "runtime_plaintext_scale"}> : (!ren.plaintext, !t11) -> !t14
    %33 = "ren.ckks.multiply_plaintext"(%31, %32) <{rescale_condition = "plaintext_scale_not_one"}> : (!t11, !t14) -> !t15
    %34 = "ren.ckks.rescale"(%33, %32) <{condition = "plaintext_scale_not_one"}> : (!t15, !t14) -> !t15
    func.return %34 : !t15
  }
}
