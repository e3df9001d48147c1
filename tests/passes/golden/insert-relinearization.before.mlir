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
    %2 = "ren.ckks.multiply"(%0, %1) {ren.scheduling_obligations = ["relinearize", "rescale"]} : (!t1, !t1) -> !t1
    %3 = "ren.ckks.rotate"(%x) <{shift = 1 : i64}> : (!t0) -> !t1
    %4 = "ren.ckks.prepare.multiply.message"(%w, %3) <{operation = "multiply", source_role = "message", scale_mode = "default_scale"}> : (!ren.message, !t1) -> !t2
    %5 = "ren.ckks.to_ntt"(%3) : (!t1) -> !t1
    %6 = "ren.ckks.multiply_plaintext"(%5, %4) <{rescale_condition = "always"}> {ren.scheduling_obligations = ["rescale"]} : (!t1, !t2) -> !t1
    %7 = "ren.ckks.add"(%2, %6) : (!t1, !t1) -> !t1
    %8 = "ren.ckks.rotate"(%x) <{shift = 2 : i64}> : (!t0) -> !t1
    %9 = "ren.ckks.to_ntt"(%8) : (!t1) -> !t1
    %10 = "ren.ckks.to_ntt"(%y) : (!t0) -> !t1
    %11 = "ren.ckks.multiply"(%9, %10) {ren.scheduling_obligations = ["relinearize", "rescale"]} : (!t1, !t1) -> !t1
    %12 = "ren.ckks.subtract"(%7, %11) : (!t1, !t1) -> !t1
    %13 = "ren.ckks.prepare.add.message"(%w, %12) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t1) -> !t3
    %14 = "ren.ckks.add_plaintext"(%12, %13) : (!t1, !t3) -> !t1
    %15 = "ren.ckks.subtract"(%14, %y) : (!t1, !t0) -> !t1
    %16 = "ren.ckks.multiply_integer"(%y) <{value = 3 : i64}> : (!t0) -> !t1
    %17 = "ren.ckks.add"(%15, %16) : (!t1, !t1) -> !t1
    %18 = "ren.constant"() <{value = 2.500000e-01 : f64}> : () -> !t4
    %19 = "ren.ckks.prepare.multiply.static"(%18, %17) <{operation = "multiply", source_role = "static", scale_mode = "default_scale"}> : (!t4, !t1) -> !t2
    %20 = "ren.ckks.to_ntt"(%17) : (!t1) -> !t1
    %21 = "ren.ckks.multiply_plaintext"(%20, %19) <{rescale_condition = "always"}> {ren.scheduling_obligations = ["rescale"]} : (!t1, !t2) -> !t1
    %22 = "ren.ckks.prepare.add.message"(%w, %x) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t0) -> !t3
    %23 = "ren.ckks.add_plaintext"(%x, %22) : (!t0, !t3) -> !t1
    %24 = "ren.ckks.add"(%21, %23) : (!t1, !t1) -> !t1
    %25 = "ren.ckks.prepare.multiply.plaintext"(%g, %24) <{operation = "multiply", source_role = "plaintext", scale_mode = "runtime_plaintext_scale"}> : (!ren.plaintext, !t1) -> !t5
    %26 = "ren.ckks.to_ntt"(%24) : (!t1) -> !t1
    %27 = "ren.ckks.multiply_plaintext"(%26, %25) <{rescale_condition = "plaintext_scale_not_one"}> {ren.scheduling_obligations = ["rescale"]} : (!t1, !t5) -> !t1
    func.return %27 : !t1
  }
}
