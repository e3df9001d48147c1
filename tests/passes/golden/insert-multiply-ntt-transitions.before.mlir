!t0 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t1 = !ren.encrypted<shape=4, frame=4, batch=none>
!t2 = !ren.plaintext<shape=4, frame=4, use=multiply>
!t3 = !ren.plaintext<shape=4, frame=4, use=add>
!t4 = !ren.message<kind=static, shape=scalar>
!t5 = !ren.plaintext<use=multiply>
builtin.module attributes {ren.schema_version = "1", ren.dialect_version = "0.1"} {
  func.func @main(%x: !t0, %y: !t0, %w: !ren.message, %g: !ren.plaintext) -> !t1 {
    %0 = "ren.logical.multiply.encrypted_encrypted"(%x, %y) : (!t0, !t0) -> !t1
    %1 = "ren.ckks.rotate"(%x) <{shift = 1 : i64}> : (!t0) -> !t1
    %2 = "ren.ckks.prepare.multiply.message"(%w, %1) <{operation = "multiply", source_role = "message", scale_mode = "default_scale"}> : (!ren.message, !t1) -> !t2
    %3 = "ren.logical.multiply.public_encrypted"(%2, %1) <{plaintext_prepared = true, scale_mode = "default_scale"}> : (!t2, !t1) -> !t1
    %4 = "ren.logical.add.encrypted_encrypted"(%0, %3) : (!t1, !t1) -> !t1
    %5 = "ren.ckks.rotate"(%x) <{shift = 2 : i64}> : (!t0) -> !t1
    %6 = "ren.logical.multiply.encrypted_encrypted"(%5, %y) : (!t1, !t0) -> !t1
    %7 = "ren.logical.subtract.encrypted_encrypted"(%4, %6) : (!t1, !t1) -> !t1
    %8 = "ren.ckks.prepare.add.message"(%w, %7) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t1) -> !t3
    %9 = "ren.logical.add.encrypted_public"(%7, %8) <{plaintext_prepared = true, scale_mode = "ciphertext_scale"}> : (!t1, !t3) -> !t1
    %10 = "ren.logical.subtract.encrypted_encrypted"(%9, %y) : (!t1, !t0) -> !t1
    %11 = "ren.constant"() <{value = 3 : i64}> : () -> !t4
    %12 = "ren.logical.multiply.encrypted_public"(%y, %11) : (!t0, !t4) -> !t1
    %13 = "ren.logical.add.encrypted_encrypted"(%10, %12) : (!t1, !t1) -> !t1
    %14 = "ren.constant"() <{value = 2.500000e-01 : f64}> : () -> !t4
    %15 = "ren.ckks.prepare.multiply.static"(%14, %13) <{operation = "multiply", source_role = "static", scale_mode = "default_scale"}> : (!t4, !t1) -> !t2
    %16 = "ren.logical.multiply.encrypted_public"(%13, %15) <{plaintext_prepared = true, scale_mode = "default_scale"}> : (!t1, !t2) -> !t1
    %17 = "ren.ckks.prepare.add.message"(%w, %x) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t0) -> !t3
    %18 = "ren.logical.add.encrypted_public"(%x, %17) <{plaintext_prepared = true, scale_mode = "ciphertext_scale"}> : (!t0, !t3) -> !t1
    %19 = "ren.logical.add.encrypted_encrypted"(%16, %18) : (!t1, !t1) -> !t1
    %20 = "ren.ckks.prepare.multiply.plaintext"(%g, %19) <{operation = "multiply", source_role = "plaintext", scale_mode = "runtime_plaintext_scale"}> : (!ren.plaintext, !t1) -> !t5
    %21 = "ren.logical.multiply.encrypted_public"(%19, %20) <{plaintext_prepared = true, scale_mode = "runtime_plaintext_scale"}> : (!t1, !t5) -> !t1
    func.return %21 : !t1
  }
}
