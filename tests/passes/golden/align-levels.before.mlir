!t0 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t1 = !ren.encrypted<shape=4, frame=4, batch=none>
!t2 = !ren.plaintext<shape=4, frame=4, use=multiply>
!t3 = !ren.plaintext<shape=4, frame=4, use=add>
!t4 = !ren.message<kind=static, shape=scalar>
!t5 = !ren.plaintext<use=multiply>
builtin.module attributes {ren.schema_version = "1", ren.dialect_version = "0.1"} {
  func.func @main(%x: !t0, %y: !t0, %w: !ren.message, %g: !ren.plaintext) -> !t1 {
    %0 = "ren.ckks.to_ntt"(%x) : (!t0) -> !t1
    %1 = "ren.ckks.to_ntt"(%y) : (!t0) -> !t1
    %2 = "ren.ckks.multiply"(%0, %1) : (!t1, !t1) -> !t1
    %3 = "ren.ckks.relinearize"(%2) : (!t1) -> !t1
    %4 = "ren.ckks.rescale"(%3) <{condition = "always"}> : (!t1) -> !t1
    %5 = "ren.ckks.rotate"(%x) <{shift = 1 : i64}> : (!t0) -> !t1
    %6 = "ren.ckks.prepare.multiply.message"(%w, %5) <{operation = "multiply", source_role = "message", scale_mode = "default_scale"}> : (!ren.message, !t1) -> !t2
    %7 = "ren.ckks.to_ntt"(%5) : (!t1) -> !t1
    %8 = "ren.ckks.multiply_plaintext"(%7, %6) <{rescale_condition = "always"}> : (!t1, !t2) -> !t1
    %9 = "ren.ckks.from_ntt"(%8) : (!t1) -> !t1
    %10 = "ren.ckks.rescale"(%9) <{condition = "always"}> : (!t1) -> !t1
    %11 = "ren.ckks.add"(%4, %10) : (!t1, !t1) -> !t1
    %12 = "ren.ckks.rotate"(%x) <{shift = 2 : i64}> : (!t0) -> !t1
    %13 = "ren.ckks.to_ntt"(%12) : (!t1) -> !t1
    %14 = "ren.ckks.to_ntt"(%y) : (!t0) -> !t1
    %15 = "ren.ckks.multiply"(%13, %14) : (!t1, !t1) -> !t1
    %16 = "ren.ckks.relinearize"(%15) : (!t1) -> !t1
    %17 = "ren.ckks.rescale"(%16) <{condition = "always"}> : (!t1) -> !t1
    %18 = "ren.ckks.subtract"(%11, %17) : (!t1, !t1) -> !t1
    %19 = "ren.ckks.prepare.add.message"(%w, %18) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t1) -> !t3
    %20 = "ren.ckks.add_plaintext"(%18, %19) : (!t1, !t3) -> !t1
    %21 = "ren.ckks.subtract"(%20, %y) : (!t1, !t0) -> !t1
    %22 = "ren.ckks.multiply_integer"(%y) <{value = 3 : i64}> : (!t0) -> !t1
    %23 = "ren.ckks.add"(%21, %22) : (!t1, !t1) -> !t1
    %24 = "ren.constant"() <{value = 2.500000e-01 : f64}> : () -> !t4
    %25 = "ren.ckks.prepare.multiply.static"(%24, %23) <{operation = "multiply", source_role = "static", scale_mode = "default_scale"}> : (!t4, !t1) -> !t2
    %26 = "ren.ckks.to_ntt"(%23) : (!t1) -> !t1
    %27 = "ren.ckks.multiply_plaintext"(%26, %25) <{rescale_condition = "always"}> : (!t1, !t2) -> !t1
    %28 = "ren.ckks.from_ntt"(%27) : (!t1) -> !t1
    %29 = "ren.ckks.rescale"(%28) <{condition = "always"}> : (!t1) -> !t1
    %30 = "ren.ckks.prepare.add.message"(%w, %x) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t0) -> !t3
    %31 = "ren.ckks.add_plaintext"(%x, %30) : (!t0, !t3) -> !t1
    %32 = "ren.ckks.add"(%29, %31) : (!t1, !t1) -> !t1
    %33 = "ren.ckks.prepare.multiply.plaintext"(%g, %32) <{operation = "multiply", source_role = "plaintext", scale_mode = "runtime_plaintext_scale"}> : (!ren.plaintext, !t1) -> !t5
    %34 = "ren.ckks.to_ntt"(%32) : (!t1) -> !t1
    %35 = "ren.ckks.multiply_plaintext"(%34, %33) <{rescale_condition = "plaintext_scale_not_one"}> : (!t1, !t5) -> !t1
    %36 = "ren.ckks.from_ntt"(%35) : (!t1) -> !t1
    %37 = "ren.ckks.rescale"(%36, %33) <{condition = "plaintext_scale_not_one"}> : (!t1, !t5) -> !t1
    func.return %37 : !t1
  }
}
