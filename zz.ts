import { createEngine } from '#platform/template/engine.ts'
for (const n of [20e6, 25e6, 27e6, 29e6, 30e6, 31e6, 40e6, 50e6]) {
  const e = createEngine(); const o = e.render({ text: `{{ ('x' * ${n})|length }}` }, '{}', 1)
  const u = createEngine(); for (let at = 0; at < 100; at++) u.render({ text: `${at}${'{{ a }}'.repeat(2000)}` }, '{"a": 1}', 1)
  const m = u.state(); const o2 = u.render({ text: `{{ ('x' * ${n})|length }}` }, '{}', 1)
  console.log(n, o.kind, e.state(), m, o2.kind, u.state())
}
