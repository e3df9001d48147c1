!t0 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t1 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t2 = !ren.encrypted<level=0, scale=s0^2, shape=4, frame=4, parts=3, domain=ntt, batch=none>
!t3 = !ren.plaintext<level=0, scale=s0, shape=4, frame=4, use=multiply>
!t4 = !ren.encrypted<level=0, scale=s0^2, shape=4, frame=4, parts=2, domain=ntt, batch=none>
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
    %3 = "ren.ckks.rotate"(%x) <{shift = 1 : i64}> : (!t0) -> !t0
    %4 = "ren.ckks.prepare.multiply.message"(%w, %3) <{operation = "multiply", source_role = "message", scale_mode = "default_scale"}> : (!ren.message, !t0) -> !t3
    %5 = "ren.ckks.to_ntt"(%3) : (!t0) -> !t1
    %6 = "ren.ckks.multiply_plaintext"(%5, %4) <{rescale_condition = "always"}> : (!t1, !t3) -> !t4
    %7 = "ren.ckks.add"(%2, %6) : (!t2, !t4) -> !t2
    %8 = "ren.ckks.rotate"(%x) <{shift = 2 : i64}> : (!t0) -> !t0
    %9 = "ren.ckks.to_ntt"(%8) : (!t0) -> !t1
    %10 = "ren.ckks.multiply"(%9, %1) : (!t1, !t1) -> !t2
    %11 = "ren.ckks.subtract"(%7, %10) : (!t2, !t2) -> !t2
    %12 = "ren.ckks.relinearize"(%11) : (!t2) -> !t4
    %13 = "ren.ckks.prepare.add.message"(%w, %12) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t4) -> !t5
    %14 = "ren.ckks.add_plaintext"(%12, %13) : (!t4, !t5) -> !t4
    %15 = "ren.ckks.multiply_scalar"(%y) <{value = 1.000000e+00 : f64, scale = #ren.scale<s0>}> : (!t0) -> !t6
    %16 = "ren.ckks.subtract"(%14, %15) : (!t4, !t6) -> !t4
    %17 = "ren.ckks.multiply_integer"(%y) <{value = 3 : i64}> : (!t0) -> !t0
    %18 = "ren.ckks.multiply_scalar"(%17) <{value = 1.000000e+00 : f64, scale = #ren.scale<s0>}> : (!t0) -> !t6
    %19 = "ren.ckks.add"(%16, %18) : (!t4, !t6) -> !t4
    %20 = "ren.ckks.rescale"(%19) <{condition = "always"}> : (!t4) -> !t7
    %21 = "ren.constant"() <{value = 2.500000e-01 : f64}> : () -> !t8
    %22 = "ren.ckks.prepare.multiply.static"(%21, %20) <{operation = "multiply", source_role = "static", scale_mode = "default_scale"}> : (!t8, !t7) -> !t9
    %23 = "ren.ckks.multiply_plaintext"(%20, %22) <{rescale_condition = "always"}> : (!t7, !t9) -> !t10
    %24 = "ren.ckks.prepare.add.message"(%w, %x) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t0) -> !t11
    %25 = "ren.ckks.add_plaintext"(%x, %24) : (!t0, !t11) -> !t0
    %26 = "ren.ckks.mod_switch"(%25) <{levels = 1 : i64}> : (!t0) -> !t12
    %27 = "ren.ckks.multiply_scalar"(%26) <{value = 1.000000e+00 : f64, scale = #ren.scale<s0^-1*s1^2>}> : (!t12) -> !t13
    %28 = "ren.ckks.add"(%23, %27) : (!t10, !t13) -> !t10
    %29 = "ren.ckks.rescale"(%28) <{condition = "always"}> : (!t10) -> !t14
    %30 = "ren.ckks.prepare.multiply.plaintext"(%g, %29) <{operation = "multiply", source_role = "plaintext", scale_mode = "runtime_plaintext_scale"}> : (!ren.plaintext, !t14) -> !t15
    %31 = "ren.ckks.multiply_plaintext"(%29, %30) <{rescale_condition = "plaintext_scale_not_one"}> : (!t14, !t15) -> !t16
    %32 = "ren.ckks.rescale"(%31, %30) <{condition = "plaintext_scale_not_one"}> : (!t16, !t15) -> !t16
    func.return %32 : !t16
  }
}
