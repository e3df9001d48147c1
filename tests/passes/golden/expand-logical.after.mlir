!t0 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t1 = !ren.encrypted<shape=4, frame=4, batch=none>
!t2 = !ren.message<kind=static, shape=scalar>
builtin.module attributes {ren.schema_version = "1", ren.dialect_version = "0.1"} {
  func.func @main(%x: !t0, %y: !t0, %w: !ren.message, %g: !ren.plaintext) -> !t1 {
    %0 = "ren.logical.multiply.encrypted_encrypted"(%x, %y) : (!t0, !t0) -> !t1
    %1 = "ren.ckks.rotate"(%x) <{shift = 1 : i64}> : (!t0) -> !t1
    %2 = "ren.logical.multiply.public_encrypted"(%w, %1) : (!ren.message, !t1) -> !t1
    %3 = "ren.logical.add.encrypted_encrypted"(%0, %2) : (!t1, !t1) -> !t1
    %4 = "ren.ckks.rotate"(%x) <{shift = 2 : i64}> : (!t0) -> !t1
    %5 = "ren.logical.multiply.encrypted_encrypted"(%4, %y) : (!t1, !t0) -> !t1
    %6 = "ren.logical.subtract.encrypted_encrypted"(%3, %5) : (!t1, !t1) -> !t1
    %7 = "ren.logical.add.encrypted_public"(%6, %w) : (!t1, !ren.message) -> !t1
    %8 = "ren.logical.subtract.encrypted_encrypted"(%7, %y) : (!t1, !t0) -> !t1
    %9 = "ren.constant"() <{value = 3 : i64}> : () -> !t2
    %10 = "ren.logical.multiply.encrypted_public"(%y, %9) : (!t0, !t2) -> !t1
    %11 = "ren.logical.add.encrypted_encrypted"(%8, %10) : (!t1, !t1) -> !t1
    %12 = "ren.constant"() <{value = 2.500000e-01 : f64}> : () -> !t2
    %13 = "ren.logical.multiply.encrypted_public"(%11, %12) : (!t1, !t2) -> !t1
    %14 = "ren.logical.add.encrypted_public"(%x, %w) : (!t0, !ren.message) -> !t1
    %15 = "ren.logical.add.encrypted_encrypted"(%13, %14) : (!t1, !t1) -> !t1
    %16 = "ren.logical.multiply.encrypted_public"(%15, %g) : (!t1, !ren.plaintext) -> !t1
    func.return %16 : !t1
  }
}
