!t0 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t1 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t2 = !ren.encrypted<level=0, scale=s0^2, shape=4, frame=4, parts=3, domain=ntt, batch=none>
!t3 = !ren.encrypted<level=0, scale=s0^2, shape=4, frame=4, parts=2, domain=ntt, batch=none>
!t4 = !ren.plaintext<level=0, scale=s0, shape=4, frame=4, use=multiply>
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
    %3 = "ren.ckks.relinearize"(%2) : (!t2) -> !t3
    %4 = "ren.ckks.rotate"(%x) <{shift = 1 : i64}> : (!t0) -> !t0
    %5 = "ren.ckks.prepare.multiply.message"(%w, %4) <{operation = "multiply", source_role = "message", scale_mode = "default_scale"}> : (!ren.message, !t0) -> !t4
    %6 = "ren.ckks.to_ntt"(%4) : (!t0) -> !t1
    %7 = "ren.ckks.multiply_plaintext"(%6, %5) <{rescale_condition = "always"}> : (!t1, !t4) -> !t3
    %8 = "ren.ckks.from_ntt"(%7) : (!t3) -> !t5
    %9 = "ren.ckks.add"(%3, %8) : (!t3, !t5) -> !t3
    %10 = "ren.ckks.rotate"(%x) <{shift = 2 : i64}> : (!t0) -> !t0
    %11 = "ren.ckks.to_ntt"(%10) : (!t0) -> !t1
    %12 = "ren.ckks.to_ntt"(%y) : (!t0) -> !t1
    %13 = "ren.ckks.multiply"(%11, %12) : (!t1, !t1) -> !t2
    %14 = "ren.ckks.relinearize"(%13) : (!t2) -> !t3
    %15 = "ren.ckks.subtract"(%9, %14) : (!t3, !t3) -> !t3
    %16 = "ren.ckks.prepare.add.message"(%w, %15) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t3) -> !t6
    %17 = "ren.ckks.add_plaintext"(%15, %16) : (!t3, !t6) -> !t3
    %18 = "ren.ckks.multiply_scalar"(%y) <{value = 1.000000e+00 : f64, scale = #ren.scale<s0>}> : (!t0) -> !t5
    %19 = "ren.ckks.subtract"(%17, %18) : (!t3, !t5) -> !t3
    %20 = "ren.ckks.multiply_integer"(%y) <{value = 3 : i64}> : (!t0) -> !t0
    %21 = "ren.ckks.multiply_scalar"(%20) <{value = 1.000000e+00 : f64, scale = #ren.scale<s0>}> : (!t0) -> !t5
    %22 = "ren.ckks.add"(%19, %21) : (!t3, !t5) -> !t3
    %23 = "ren.ckks.rescale"(%22) <{condition = "always"}> : (!t3) -> !t7
    %24 = "ren.constant"() <{value = 2.500000e-01 : f64}> : () -> !t8
    %25 = "ren.ckks.prepare.multiply.static"(%24, %23) <{operation = "multiply", source_role = "static", scale_mode = "default_scale"}> : (!t8, !t7) -> !t9
    %26 = "ren.ckks.to_ntt"(%23) : (!t7) -> !t7
    %27 = "ren.ckks.multiply_plaintext"(%26, %25) <{rescale_condition = "always"}> : (!t7, !t9) -> !t10
    %28 = "ren.ckks.from_ntt"(%27) : (!t10) -> !t11
    %29 = "ren.ckks.prepare.add.message"(%w, %x) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t0) -> !t12
    %30 = "ren.ckks.add_plaintext"(%x, %29) : (!t0, !t12) -> !t0
    %31 = "ren.ckks.mod_switch"(%30) <{levels = 1 : i64}> : (!t0) -> !t13
    %32 = "ren.ckks.multiply_scalar"(%31) <{value = 1.000000e+00 : f64, scale = #ren.scale<s0^-1*s1^2>}> : (!t13) -> !t11
    %33 = "ren.ckks.add"(%28, %32) : (!t11, !t11) -> !t11
    %34 = "ren.ckks.rescale"(%33) <{condition = "always"}> : (!t11) -> !t14
    %35 = "ren.ckks.prepare.multiply.plaintext"(%g, %34) <{operation = "multiply", source_role = "plaintext", scale_mode = "runtime_plaintext_scale"}> : (!ren.plaintext, !t14) -> !t15
    %36 = "ren.ckks.to_ntt"(%34) : (!t14) -> !t16
    %37 = "ren.ckks.multiply_plaintext"(%36, %35) <{rescale_condition = "plaintext_scale_not_one"}> : (!t16, !t15) -> !t17
    %38 = "ren.ckks.from_ntt"(%37) : (!t17) -> !t18
    %39 = "ren.ckks.rescale"(%38, %35) <{condition = "plaintext_scale_not_one"}> : (!t18, !t15) -> !t18
    func.return %39 : !t18
  }
}
