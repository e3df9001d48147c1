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
    %2 = "ren.logical.multiply.encrypted_encrypted"(%0, %1) <{multiply_ntt_transitions_inserted = true}> : (!t1, !t1) -> !t1
    %3 = "ren.ckks.rotate"(%x) <{shift = 1 : i64}> : (!t0) -> !t1
    %4 = "ren.ckks.prepare.multiply.message"(%w, %3) <{operation = "multiply", source_role = "message", scale_mode = "default_scale"}> : (!ren.message, !t1) -> !t2
    %5 = "ren.ckks.to_ntt"(%3) : (!t1) -> !t1
    %6 = "ren.logical.multiply.public_encrypted"(%4, %5) <{plaintext_prepared = true, scale_mode = "default_scale", multiply_ntt_transitions_inserted = true}> : (!t2, !t1) -> !t1
    %7 = "ren.logical.add.encrypted_encrypted"(%2, %6) : (!t1, !t1) -> !t1
    %8 = "ren.ckks.rotate"(%x) <{shift = 2 : i64}> : (!t0) -> !t1
    %9 = "ren.ckks.to_ntt"(%8) : (!t1) -> !t1
    %10 = "ren.ckks.to_ntt"(%y) : (!t0) -> !t1
    %11 = "ren.logical.multiply.encrypted_encrypted"(%9, %10) <{multiply_ntt_transitions_inserted = true}> : (!t1, !t1) -> !t1
    %12 = "ren.logical.subtract.encrypted_encrypted"(%7, %11) : (!t1, !t1) -> !t1
    %13 = "ren.ckks.prepare.add.message"(%w, %12) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t1) -> !t3
    %14 = "ren.logical.add.encrypted_public"(%12, %13) <{plaintext_prepared = true, scale_mode = "ciphertext_scale"}> : (!t1, !t3) -> !t1
    %15 = "ren.logical.subtract.encrypted_encrypted"(%14, %y) : (!t1, !t0) -> !t1
    %16 = "ren.constant"() <{value = 3 : i64}> : () -> !t4
    %17 = "ren.logical.multiply.encrypted_public"(%y, %16) : (!t0, !t4) -> !t1
    %18 = "ren.logical.add.encrypted_encrypted"(%15, %17) : (!t1, !t1) -> !t1
    %19 = "ren.constant"() <{value = 2.500000e-01 : f64}> : () -> !t4
    %20 = "ren.ckks.prepare.multiply.static"(%19, %18) <{operation = "multiply", source_role = "static", scale_mode = "default_scale"}> : (!t4, !t1) -> !t2
    %21 = "ren.ckks.to_ntt"(%18) : (!t1) -> !t1
    %22 = "ren.logical.multiply.encrypted_public"(%21, %20) <{plaintext_prepared = true, scale_mode = "default_scale", multiply_ntt_transitions_inserted = true}> : (!t1, !t2) -> !t1
    %23 = "ren.ckks.prepare.add.message"(%w, %x) <{operation = "add", source_role = "message", scale_mode = "ciphertext_scale"}> : (!ren.message, !t0) -> !t3
    %24 = "ren.logical.add.encrypted_public"(%x, %23) <{plaintext_prepared = true, scale_mode = "ciphertext_scale"}> : (!t0, !t3) -> !t1
    %25 = "ren.logical.add.encrypted_encrypted"(%22, %24) : (!t1, !t1) -> !t1
    %26 = "ren.ckks.prepare.multiply.plaintext"(%g, %25) <{operation = "multiply", source_role = "plaintext", scale_mode = "runtime_plaintext_scale"}> : (!ren.plaintext, !t1) -> !t5
    %27 = "ren.ckks.to_ntt"(%25) : (!t1) -> !t1
    %28 = "ren.logical.multiply.encrypted_public"(%27, %26) <{plaintext_prepared = true, scale_mode = "runtime_plaintext_scale", multiply_ntt_transitions_inserted = true}> : (!t1, !t5) -> !t1
    func.return %28 : !t1
  }
}
