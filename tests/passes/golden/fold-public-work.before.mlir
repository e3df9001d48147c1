!t0 = !ren.message<kind=static, shape=scalar>
!t1 = !ren.message<shape=scalar>
builtin.module attributes {ren.schema_version = "1", ren.dialect_version = "0.1"} {
  func.func @main(%x: !ren.encrypted, %w: !ren.message) -> (!ren.encrypted, !ren.message) {
    %0 = "ren.constant"() <{value = 4.000000e+00 : f64}> : () -> !t0
    %1 = "ren.public.reciprocal"(%0) : (!t0) -> !t1
    %2 = "ren.public.negate"(%1) : (!t1) -> !t1
    %3 = "ren.semantic.multiply"(%x, %2) : (!ren.encrypted, !t1) -> !ren.encrypted
    %4 = "ren.public.negate"(%w) : (!ren.message) -> !ren.message
    func.return %3, %4 : !ren.encrypted, !ren.message
  }
}
