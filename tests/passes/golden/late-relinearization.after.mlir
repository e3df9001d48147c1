!t0 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t1 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t2 = !ren.encrypted<level=0, scale=s0^2, shape=4, frame=4, parts=3, domain=ntt, batch=none>
!t3 = !ren.plaintext<level=0, scale=s0, shape=4, frame=4, use=multiply>
!t4 = !ren.encrypted<level=0, scale=s0^2, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t5 = !ren.encrypted<level=0, scale=s0^2, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t6 = !ren.plaintext<level=0, scale=s0^2, shape=4, frame=4, use=add>
!t7 = !ren.encrypted<level=1, scale=s1, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t8 = !ren.message<kind=static, shape=scalar>
!t9 = !ren.plaintext<level=1, scale=s1, shape=4, frame=4, use=multiply>
!t10 = !ren.encrypted<level=1, scale=s1^2, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t11 = !ren.encrypted<level=1, scale=s1^2, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t12 = !ren.plaintext<level=0, scale=s0, shape=4, frame=4, use=add>
!t13 = !ren.encrypted<level=1, scale=s0, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t14 = !ren.encrypted<level=2, scale=s2, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t15 = !ren.plaintext<use=multiply>
!t16 = !ren.encrypted<level=2, scale=s2, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t17 = !ren.encrypted<shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t18 = !ren.encrypted<shape=4, frame=4, parts=2, domain=coeff, batch=none>
builtin.module attributes {ren.schema_version = "1", ren.dialect_version = "0.1"} {
  func.func @main(%x: !t0, %y: !t0, %w: !ren.message, %g: !ren.plaintext) -> !t18 {
    %0 = "ren.ckks.to_ntt"(%x) : (!t0) -> !t1
    %1 = "ren.ckks.to_ntt"(%y) : (!t0) -> !t1
    %2 = "ren.ckks.multiply"(%0, %1) : (!t1, !t1) -> !t2
    %3 = "ren.ckks.rotate"(%x) <{shift = 1 : i64}> : (!t0) -> !t0
    %4 = "ren.ckks.prepare.multiply.message"(%w, %3) <{operation = "multiply", source_role = "message", scale_mode = "default_scale"}> : (!ren.message, !t0) -> !t3
    %5 = "ren.ckks.to_ntt"(%3) : (!t0) -> !t1
    %6 = "ren.ckks.multiply_plaintext"(%5, %4) <{rescale_condition = "always"}> : (!t1, !t3) -> !t4
    %7 = "ren.ckks.from_ntt"(%6) : (!t4) -> !t5
    %8 = "ren.ckks.add"(%2, %7) : (!t2, !t5) -> !t2
    %9 = "ren.ckks.rotate"(%x) <{shift = 2 : i64}> : (!t0) -> !t0
    %10 = "ren.ckks.to_ntt"(%9) : (!t0) -> !t1
    %11 = "ren.ckks.to_ntt"(%y) : (!t0) -> !t1
    %12 = "ren.ckks.multiply"(%10, %11) : (!t1, !t1) -> !t2
    %13 = "ren.ckks.subtract"(%8, %12) : (!t2, !t2) -> !t2
    %14 = "ren.ckks.relinearize"(%13) : (!t2) -> !t4
    %15 = "ren.ckks.prepare.add.message"(%w, %14) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t4) -> !t6
    %16 = "ren.ckks.add_plaintext"(%14, %15) : (!t4, !t6) -> !t4
    %17 = "ren.ckks.multiply_scalar"(%y) <{value = 1.000000e+00 : f64, scale = #ren.scale<s0>}> : (!t0) -> !t5
    %18 = "ren.ckks.subtract"(%16, %17) : (!t4, !t5) -> !t4
    %19 = "ren.ckks.multiply_integer"(%y) <{value = 3 : i64}> : (!t0) -> !t0
    %20 = "ren.ckks.multiply_scalar"(%19) <{value = 1.000000e+00 : f64, scale = #ren.scale<s0>}> : (!t0) -> !t5
    %21 = "ren.ckks.add"(%18, %20) : (!t4, !t5) -> !t4
    %22 = "ren.ckks.rescale"(%21) <{condition = "always"}> : (!t4) -> !t7
    %23 = "ren.constant"() <{value = 2.500000e-01 : f64}> : () -> !t8
    %24 = "ren.ckks.prepare.multiply.static"(%23, %22) <{operation = "multiply", source_role = "static", scale_mode = "default_scale"}> : (!t8, !t7) -> !t9
    %25 = "ren.ckks.to_ntt"(%22) : (!t7) -> !t7
    %26 = "ren.ckks.multiply_plaintext"(%25, %24) <{rescale_condition = "always"}> : (!t7, !t9) -> !t10
    %27 = "ren.ckks.from_ntt"(%26) : (!t10) -> !t11
    %28 = "ren.ckks.prepare.add.message"(%w, %x) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t0) -> !t12
    %29 = "ren.ckks.add_plaintext"(%x, %28) : (!t0, !t12) -> !t0
    %30 = "ren.ckks.mod_switch"(%29) <{levels = 1 : i64}> : (!t0) -> !t13
    %31 = "ren.ckks.multiply_scalar"(%30) <{value = 1.000000e+00 : f64, scale = #ren.scale<s0^-1*s1^2>}> : (!t13) -> !t11
    %32 = "ren.ckks.add"(%27, %31) : (!t11, !t11) -> !t11
    %33 = "ren.ckks.rescale"(%32) <{condition = "always"}> : (!t11) -> !t14
    %34 = "ren.ckks.prepare.multiply.plaintext"(%g, %33) <{operation = "multiply", source_role = "plaintext", scale_mode = "runtime_plaintext_scale"}> : (!ren.plaintext, !t14) -> !t15
    %35 = "ren.ckks.to_ntt"(%33) : (!t14) -> !t16
    %36 = "ren.ckks.multiply_plaintext"(%35, %34) <{rescale_condition = "plaintext_scale_not_one"}> : (!t16, !t15) -> !t17
    %37 = "ren.ckks.from_ntt"(%36) : (!t17) -> !t18
    %38 = "ren.ckks.rescale"(%37, %34) <{condition = "plaintext_scale_not_one"}> : (!t18, !t15) -> !t18
    func.return %38 : !t18
  }
}
