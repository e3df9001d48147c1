!t0 = !ren.encrypted<level=0, scale=s0, shape=4, frame=4, parts=2, domain=coeff, batch=none>
!t1 = !ren.encrypted<shape=4, frame=4, batch=none>
builtin.module attributes {ren.schema_version = "1", ren.dialect_version = "0.1"} {
  func.func @main(%x: !t0, %w: !ren.message) -> !t1 {
    %0 = "ren.semantic.square"(%x) : (!t0) -> !t1
    %1 = "ren.semantic.square"(%x) : (!t0) -> !t1
    %2 = "ren.semantic.roll"(%1) <{shift = 1 : i64}> : (!t1) -> !t1
    %3 = "ren.semantic.multiply"(%0, %2) : (!t1, !t1) -> !t1
    func.return %3 : !t1
  }
}
