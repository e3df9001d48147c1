!t0 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t1 = !ren.message<kind=static, shape=scalar>
!t2 = !ren.encrypted<shape=4, frame=4, batch=none>
builtin.module attributes {ren.schema_version = "1", ren.dialect_version = "0.1"} {
  func.func @main(%x: !t0, %y: !t0) -> (!t2, !t2, !t2) {
    %0 = "ren.constant"() <{value = -1.500000e+00 : f64}> : () -> !t1
    %1 = "ren.logical.multiply.encrypted_public"(%x, %0) : (!t0, !t1) -> !t2
    %2 = "ren.constant"() <{value = 2.500000e-01 : f64}> : () -> !t1
    %3 = "ren.logical.multiply.encrypted_public"(%y, %2) : (!t0, !t1) -> !t2
    %4 = "ren.constant"() <{value = 2 : i64}> : () -> !t1
    %5 = "ren.logical.multiply.encrypted_public"(%3, %4) : (!t2, !t1) -> !t2
    %6 = "ren.logical.add.encrypted_encrypted"(%1, %5) : (!t2, !t2) -> !t2
    %7 = "ren.logical.negate.encrypted"(%y) : (!t0) -> !t2
    func.return %6, %3, %7 : !t2, !t2, !t2
  }
}
