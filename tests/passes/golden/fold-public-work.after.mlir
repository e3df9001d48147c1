!t0 = !ren.message<kind=static, shape=scalar>
builtin.module attributes {ren.schema_version = "1", ren.dialect_version = "0.1"} {
  func.func @main(%x: !ren.encrypted, %w: !ren.message) -> (!ren.encrypted, !ren.message) {
    %0 = "ren.constant"() <{value = -2.500000e-01 : f64}> : () -> !t0
    %1 = "ren.semantic.multiply"(%x, %0) : (!ren.encrypted, !t0) -> !ren.encrypted
    %2 = "ren.public.negate"(%w) : (!ren.message) -> !ren.message
    func.return %1, %2 : !ren.encrypted, !ren.message
  }
}
