!t0 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t1 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t2 = !ren.encrypted<level=0, scale=s0^2, shape=4, frame=4, parts=3, domain=ntt, batch=none>
!t3 = !ren.encrypted<level=0, scale=s0^2, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t4 = !ren.encrypted<level=1, scale=s1, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t5 = !ren.plaintext<level=0, scale=s0, shape=4, frame=4, use=multiply>
!t6 = !ren.encrypted<level=0, scale=s0^2, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t7 = !ren.encrypted<level=1, scale=s1, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t8 = !ren.plaintext<level=1, scale=s1, shape=4, frame=4, use=add>
!t9 = !ren.message<kind=static, shape=scalar>
!t10 = !ren.plaintext<level=1, scale=s1, shape=4, frame=4, use=multiply>
!t11 = !ren.encrypted<level=1, scale=s1^2, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t12 = !ren.encrypted<level=1, scale=s1^2, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t13 = !ren.encrypted<level=2, scale=s2, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t14 = !ren.plaintext<level=0, scale=s0, shape=4, frame=4, use=add>
!t15 = !ren.plaintext<use=multiply>
!t16 = !ren.encrypted<level=2, scale=s2, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t17 = !ren.encrypted<shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t18 = !ren.encrypted<shape=4, frame=4, parts=2, domain=coeff, batch=none>
builtin.module attributes {ren.schema_version = "1", ren.dialect_version = "0.1"} {
  func.func @main(%x: !t0, %y: !t0, %w: !ren.message, %g: !ren.plaintext) -> !t18 {
    %0 = "ren.ckks.to_ntt"(%x) : (!t0) -> !t1
    %1 = "ren.ckks.to_ntt"(%y) : (!t0) -> !t1
    %2 = "ren.ckks.multiply"(%0, %1) : (!t1, !t1) -> !t2
    %3 = "ren.ckks.relinearize"(%2) : (!t2) -> !t3
    %4 = "ren.ckks.rescale"(%3) <{condition = "always"}> : (!t3) -> !t4
    %5 = "ren.ckks.rotate"(%x) <{shift = 1 : i64}> : (!t0) -> !t0
    %6 = "ren.ckks.prepare.multiply.message"(%w, %5) <{operation = "multiply", source_role = "message", scale_mode = "default_scale"}> : (!ren.message, !t0) -> !t5
    %7 = "ren.ckks.to_ntt"(%5) : (!t0) -> !t1
    %8 = "ren.ckks.multiply_plaintext"(%7, %6) <{rescale_condition = "always"}> : (!t1, !t5) -> !t3
    %9 = "ren.ckks.from_ntt"(%8) : (!t3) -> !t6
    %10 = "ren.ckks.rescale"(%9) <{condition = "always"}> : (!t6) -> !t7
    %11 = "ren.ckks.add"(%4, %10) : (!t4, !t7) -> !t4
    %12 = "ren.ckks.rotate"(%x) <{shift = 2 : i64}> : (!t0) -> !t0
    %13 = "ren.ckks.to_ntt"(%12) : (!t0) -> !t1
    %14 = "ren.ckks.to_ntt"(%y) : (!t0) -> !t1
    %15 = "ren.ckks.multiply"(%13, %14) : (!t1, !t1) -> !t2
    %16 = "ren.ckks.relinearize"(%15) : (!t2) -> !t3
    %17 = "ren.ckks.rescale"(%16) <{condition = "always"}> : (!t3) -> !t4
    %18 = "ren.ckks.subtract"(%11, %17) : (!t4, !t4) -> !t4
    %19 = "ren.ckks.prepare.add.message"(%w, %18) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t4) -> !t8
    %20 = "ren.ckks.add_plaintext"(%18, %19) : (!t4, !t8) -> !t4
    %21 = "ren.ckks.align"(%y) <{level = 1 : i64}> : (!t0) -> !t7
    %22 = "ren.ckks.subtract"(%20, %21) : (!t4, !t7) -> !t4
    %23 = "ren.ckks.multiply_integer"(%y) <{value = 3 : i64}> : (!t0) -> !t0
    %24 = "ren.ckks.align"(%23) <{level = 1 : i64}> : (!t0) -> !t7
    %25 = "ren.ckks.add"(%22, %24) : (!t4, !t7) -> !t4
    %26 = "ren.constant"() <{value = 2.500000e-01 : f64}> : () -> !t9
    %27 = "ren.ckks.prepare.multiply.static"(%26, %25) <{operation = "multiply", source_role = "static", scale_mode = "default_scale"}> : (!t9, !t4) -> !t10
    %28 = "ren.ckks.to_ntt"(%25) : (!t4) -> !t4
    %29 = "ren.ckks.multiply_plaintext"(%28, %27) <{rescale_condition = "always"}> : (!t4, !t10) -> !t11
    %30 = "ren.ckks.from_ntt"(%29) : (!t11) -> !t12
    %31 = "ren.ckks.rescale"(%30) <{condition = "always"}> : (!t12) -> !t13
    %32 = "ren.ckks.prepare.add.message"(%w, %x) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t0) -> !t14
    %33 = "ren.ckks.add_plaintext"(%x, %32) : (!t0, !t14) -> !t0
    %34 = "ren.ckks.align"(%33) <{level = 2 : i64}> : (!t0) -> !t13
    %35 = "ren.ckks.add"(%31, %34) : (!t13, !t13) -> !t13
    %36 = "ren.ckks.prepare.multiply.plaintext"(%g, %35) <{operation = "multiply", source_role = "plaintext", scale_mode = "runtime_plaintext_scale"}> : (!ren.plaintext, !t13) -> !t15
    %37 = "ren.ckks.to_ntt"(%35) : (!t13) -> !t16
    %38 = "ren.ckks.multiply_plaintext"(%37, %36) <{rescale_condition = "plaintext_scale_not_one"}> : (!t16, !t15) -> !t17
    %39 = "ren.ckks.from_ntt"(%38) : (!t17) -> !t18
    %40 = "ren.ckks.rescale"(%39, %36) <{condition = "plaintext_scale_not_one"}> : (!t18, !t15) -> !t18
    func.return %40 : !t18
  }
}
