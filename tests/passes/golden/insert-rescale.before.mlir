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
    %3 = "ren.ckks.relinearize"(%2) {ren.scheduling_obligations = ["rescale"]} : (!t1) -> !t1
    %4 = "ren.ckks.rotate"(%x) <{shift = 1 : i64}> : (!t0) -> !t1
    %5 = "ren.ckks.prepare.multiply.message"(%w, %4) <{operation = "multiply", source_role = "message", scale_mode = "default_scale"}> : (!ren.message, !t1) -> !t2
    %6 = "ren.ckks.to_ntt"(%4) : (!t1) -> !t1
    %7 = "ren.ckks.multiply_plaintext"(%6, %5) <{rescale_condition = "always"}> {ren.scheduling_obligations = ["rescale"]} : (!t1, !t2) -> !t1
    %8 = "ren.ckks.add"(%3, %7) : (!t1, !t1) -> !t1
    %9 = "ren.ckks.rotate"(%x) <{shift = 2 : i64}> : (!t0) -> !t1
    %10 = "ren.ckks.to_ntt"(%9) : (!t1) -> !t1
    %11 = "ren.ckks.to_ntt"(%y) : (!t0) -> !t1
    %12 = "ren.ckks.multiply"(%10, %11) : (!t1, !t1) -> !t1
    %13 = "ren.ckks.relinearize"(%12) {ren.scheduling_obligations = ["rescale"]} : (!t1) -> !t1
    %14 = "ren.ckks.subtract"(%8, %13) : (!t1, !t1) -> !t1
    %15 = "ren.ckks.prepare.add.message"(%w, %14) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t1) -> !t3
    %16 = "ren.ckks.add_plaintext"(%14, %15) : (!t1, !t3) -> !t1
    %17 = "ren.ckks.subtract"(%16, %y) : (!t1, !t0) -> !t1
    %18 = "ren.ckks.multiply_integer"(%y) <{value = 3 : i64}> : (!t0) -> !t1
    %19 = "ren.ckks.add"(%17, %18) : (!t1, !t1) -> !t1
    %20 = "ren.constant"() <{value = 2.500000e-01 : f64}> : () -> !t4
    %21 = "ren.ckks.prepare.multiply.static"(%20, %19) <{operation = "multiply", source_role = "static", scale_mode = "default_scale"}> : (!t4, !t1) -> !t2
    %22 = "ren.ckks.to_ntt"(%19) : (!t1) -> !t1
    %23 = "ren.ckks.multiply_plaintext"(%22, %21) <{rescale_condition = "always"}> {ren.scheduling_obligations = ["rescale"]} : (!t1, !t2) -> !t1
    %24 = "ren.ckks.prepare.add.message"(%w, %x) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t0) -> !t3
    %25 = "ren.ckks.add_plaintext"(%x, %24) : (!t0, !t3) -> !t1
    %26 = "ren.ckks.add"(%23, %25) : (!t1, !t1) -> !t1
    %27 = "ren.ckks.prepare.multiply.plaintext"(%g, %26) <{operation = "multiply", source_role = "plaintext", scale_mode = "runtime_plaintext_scale"}> : (!ren.plaintext, !t1) -> !t5
    %28 = "ren.ckks.to_ntt"(%26) : (!t1) -> !t1
    %29 = "ren.ckks.multiply_plaintext"(%28, %27) <{rescale_condition = "plaintext_scale_not_one"}> {ren.scheduling_obligations = ["rescale"]} : (!t1, !t5) -> !t1
    func.return %29 : !t1
  }
}
