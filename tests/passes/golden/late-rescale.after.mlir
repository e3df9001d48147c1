!t0 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t1 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t2 = !ren.encrypted<level=0, scale=s0^2, shape=4, frame=4, parts=3, domain=ntt, batch=none>
!t3 = !ren.encrypted<level=0, scale=s0^2, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t4 = !ren.plaintext<level=0, scale=s0, shape=4, frame=4, use=multiply>
!t5 = !ren.plaintext<level=0, scale=s0^2, shape=4, frame=4, use=add>
!t6 = !ren.encrypted<level=0, scale=s0^2, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t7 = !ren.encrypted<level=1, scale=s1, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t8 = !ren.message<kind=static, shape=scalar>
!t9 = !ren.plaintext<level=1, scale=s1, shape=4, frame=4, use=multiply>
!t10 = !ren.encrypted<level=1, scale=s1^2, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t11 = !ren.plaintext<level=0, scale=s0, shape=4, frame=4, use=add>
!t12 = !ren.encrypted<level=1, scale=s0, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t13 = !ren.encrypted<level=1, scale=s1^2, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t14 = !ren.encrypted<level=2, scale=s2, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t15 = !ren.plaintext<use=multiply>
!t16 = !ren.encrypted<shape=4, frame=4, parts=2, domain=ntt, batch=none>
builtin.module attributes {ren.schema_version = "1", ren.dialect_version = "0.1"} {
  func.func @main(%x: !t0, %y: !t0, %w: !ren.message, %g: !ren.plaintext) -> !t16 {
    %0 = "ren.ckks.to_ntt"(%x) : (!t0) -> !t1
    %1 = "ren.ckks.to_ntt"(%y) : (!t0) -> !t1
    %2 = "ren.ckks.multiply"(%0, %1) : (!t1, !t1) -> !t2
    %3 = "ren.ckks.relinearize"(%2) : (!t2) -> !t3
    %4 = "ren.ckks.rotate"(%x) <{shift = 1 : i64}> : (!t0) -> !t0
    %5 = "ren.ckks.prepare.multiply.message"(%w, %4) <{operation = "multiply", source_role = "message", scale_mode = "default_scale"}> : (!ren.message, !t0) -> !t4
    %6 = "ren.ckks.to_ntt"(%4) : (!t0) -> !t1
    %7 = "ren.ckks.multiply_plaintext"(%6, %5) <{rescale_condition = "always"}> : (!t1, !t4) -> !t3
    %8 = "ren.ckks.add"(%3, %7) : (!t3, !t3) -> !t3
    %9 = "ren.ckks.rotate"(%x) <{shift = 2 : i64}> : (!t0) -> !t0
    %10 = "ren.ckks.to_ntt"(%9) : (!t0) -> !t1
    %11 = "ren.ckks.multiply"(%10, %1) : (!t1, !t1) -> !t2
    %12 = "ren.ckks.relinearize"(%11) : (!t2) -> !t3
    %13 = "ren.ckks.subtract"(%8, %12) : (!t3, !t3) -> !t3
    %14 = "ren.ckks.prepare.add.message"(%w, %13) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t3) -> !t5
    %15 = "ren.ckks.add_plaintext"(%13, %14) : (!t3, !t5) -> !t3
    %16 = "ren.ckks.multiply_scalar"(%y) <{value = 1.000000e+00 : f64, scale = #ren.scale<s0>}> : (!t0) -> !t6
    %17 = "ren.ckks.subtract"(%15, %16) : (!t3, !t6) -> !t3
    %18 = "ren.ckks.multiply_integer"(%y) <{value = 3 : i64}> : (!t0) -> !t0
    %19 = "ren.ckks.multiply_scalar"(%18) <{value = 1.000000e+00 : f64, scale = #ren.scale<s0>}> : (!t0) -> !t6
    %20 = "ren.ckks.add"(%17, %19) : (!t3, !t6) -> !t3
    %21 = "ren.ckks.rescale"(%20) <{condition = "always"}> : (!t3) -> !t7
    %22 = "ren.constant"() <{value = 2.500000e-01 : f64}> : () -> !t8
    %23 = "ren.ckks.prepare.multiply.static"(%22, %21) <{operation = "multiply", source_role = "static", scale_mode = "default_scale"}> : (!t8, !t7) -> !t9
    %24 = "ren.ckks.multiply_plaintext"(%21, %23) <{rescale_condition = "always"}> : (!t7, !t9) -> !t10
    %25 = "ren.ckks.prepare.add.message"(%w, %x) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t0) -> !t11
    %26 = "ren.ckks.add_plaintext"(%x, %25) : (!t0, !t11) -> !t0
    %27 = "ren.ckks.mod_switch"(%26) <{levels = 1 : i64}> : (!t0) -> !t12
    %28 = "ren.ckks.multiply_scalar"(%27) <{value = 1.000000e+00 : f64, scale = #ren.scale<s0^-1*s1^2>}> : (!t12) -> !t13
    %29 = "ren.ckks.add"(%24, %28) : (!t10, !t13) -> !t10
    %30 = "ren.ckks.rescale"(%29) <{condition = "always"}> : (!t10) -> !t14
    %31 = "ren.ckks.prepare.multiply.plaintext"(%g, %30) <{operation = "multiply", source_role = "plaintext", scale_mode = "runtime_plaintext_scale"}> : (!ren.plaintext, !t14) -> !t15
    %32 = "ren.ckks.multiply_plaintext"(%30, %31) <{rescale_condition = "plaintext_scale_not_one"}> : (!t14, !t15) -> !t16
    %33 = "ren.ckks.rescale"(%32, %31) <{condition = "plaintext_scale_not_one"}> : (!t16, !t15) -> !t16
    func.return %33 : !t16
  }
}
