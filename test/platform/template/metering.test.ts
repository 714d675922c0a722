import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import wasmPath from 'minijinja-js/dist/bundler/minijinja_js_bg.wasm' with { type: 'file' }
import { meter } from '#platform/template/metering.ts'
import { InstanceLostError, Minijinja } from '#platform/template/minijinja.ts'
import { KiB, MiB } from '#platform/units.ts'

const STEPS = `
The binary of minijinja-js is not the one that src/platform/template was written for.
1. If nobody meant to update it, install the version of package.json again (bun install --frozen-lockfile).
2. Compare dist/bundler/minijinja_js_bg.js of both versions: minijinja.ts replaces four names of its global scope and
   three of its functions, and calls getObject.
3. If meter() throws, the binary has a section or an instruction that metering.ts does not know. Look it up in the
   specification of WebAssembly, teach skipImmediates() to pass it, and let it take units if it repeats, calls or copies.
4. Run bun test test/platform/template. The texts of errors (faults.ts), the tags and filters (adapt.ts, filters.ts) and
   the units that a render takes (limits.ts) may have changed as well.
5. Only then copy the values that this test received into it, and run bun scripts/dependencies-table.ts.
`

const SHA256 = '52a285e59f4e51a76270f8fa96141767ebf00e3aabd0a893be3c614b55d5a8a9'

const minijinja = readFileSync(wasmPath)

const section = (id: number, ...body: number[]): number[] => [id, body.length, ...body]

/**
 * A module with one page of memory and the exported function `run`, (i32) -> (), with the given instructions without
 * the last `end`.
 */
function moduleOf(...instructions: number[]): Uint8Array {
  const code = [0, ...instructions, 0x0b]
  return new Uint8Array([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...section(1, 1, 0x60, 1, 0x7f, 0),
    ...section(3, 1, 0),
    ...section(5, 1, 0, 1),
    ...section(6, 1, 0x7f, 1, 0x41, 0, 0x0b),
    ...section(7, 1, 3, ...Buffer.from('run'), 0, 0),
    ...section(10, 1, code.length, ...code),
  ])
}

const LIMITS = { maxBytes: 128 * KiB }

function run(
  wasm: Uint8Array,
  budget: number,
  argument: number,
): { readonly left: number; readonly isTrapped: boolean } {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(meter(wasm, LIMITS)))
  const { run, budget: left } = exports as unknown as { run(argument: number): void; budget: WebAssembly.Global }
  left.value = budget
  try {
    run(argument)
    return { left: left.value, isTrapped: false }
  } catch (error) {
    if (!(error instanceof WebAssembly.RuntimeError)) throw error
    return { left: left.value, isTrapped: true }
  }
}

/** Loops as many times as the argument. */
const COUNTED_LOOP = [0x03, 0x40, 0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0, 0x0b]
/** Copies as many bytes as the argument. */
const COPY = [0x41, 0, 0x41, 0, 0x20, 0, 0xfc, 10, 0, 0]
const FILL = [0x41, 0, 0x41, 0, 0x20, 0, 0xfc, 11, 0]

test('a call and each loop iteration take a unit', () => {
  expect(run(moduleOf(...COUNTED_LOOP), 1000, 10)).toEqual({ left: 1000 - 1 - 10, isTrapped: false })
})

test('an endless loop ends when the budget is used up', () => {
  expect(run(moduleOf(0x03, 0x40, 0x0c, 0, 0x0b), 1000, 0)).toEqual({ left: -1, isTrapped: true })
})

test('copying and filling memory take a unit for 32 bytes', () => {
  expect(run(moduleOf(...COPY), 10_000, 6400)).toEqual({ left: 10_000 - 1 - 200, isTrapped: false })
  expect(run(moduleOf(...FILL), 10_000, 6400)).toEqual({ left: 10_000 - 1 - 200, isTrapped: false })
  expect(run(moduleOf(...COPY), 100, 6400)).toMatchObject({ isTrapped: true })
})

test('memory grows no further than its limit', () => {
  // Traps when it cannot grow by as many pages as the argument.
  const wasm = moduleOf(0x20, 0, 0x40, 0, 0x41, 0x7f, 0x46, 0x04, 0x40, 0x00, 0x0b)
  expect(run(wasm, 100, 1)).toEqual({ left: 99, isTrapped: false })
  expect(run(wasm, 100, 2)).toEqual({ left: 99, isTrapped: true })
})

test.each([
  ['an instruction of SIMD', moduleOf(0xfd, 0x0c), /unknown instruction 0xfd/],
  ['a bulk instruction on tables', moduleOf(0xfc, 14, 0, 0), /unknown instruction 0xfc 14/],
  ['a tail call', moduleOf(0x12, 0), /unknown instruction 0x12/],
  [
    'a second memory',
    new Uint8Array([...moduleOf().slice(0, 8), ...section(5, 2, 0, 1, 0, 1)]),
    /more than one memory/,
  ],
  ['a memory above its limit', new Uint8Array([...moduleOf().slice(0, 8), ...section(5, 1, 0, 3)]), /starts above/],
  ['no module at all', new Uint8Array(8), /not a WASM module/],
  ['a module that is cut off', moduleOf(...COPY).slice(0, -3), /length beyond its end|ends in the middle/],
])('%s is refused', (_, wasm, message) => {
  expect(() => meter(wasm, LIMITS)).toThrow(message)
})

test('metered minijinja renders, reports its units, and never takes more memory than allowed', () => {
  const maxBytes = 4 * MiB
  const module = new WebAssembly.Module(meter(minijinja, { maxBytes }))
  const instance = new Minijinja(module, { budget: 1_000_000, maxArgumentBytes: MiB })
  const environment = instance.newEnvironment()
  environment.addTemplate('a.html', '{{ name }}{{ "x" * times }}')
  instance.setBudget(100_000)
  expect(environment.render('a.html', { name: '<Ada>', times: 1 }, 100)).toBe('&lt;Ada&gt;x')
  const first = 100_000 - instance.budget()
  instance.setBudget(100_000)
  environment.render('a.html', { name: '<Ada>', times: 1 }, 100)
  const second = 100_000 - instance.budget()
  // Existing memory content makes a small difference.
  expect({ first, isAlike: Math.abs(first - second) < first / 10 }).toEqual({ first, isAlike: true })
  expect(first).toBeGreaterThan(100)
  expect(first).toBeLessThan(10_000)
  instance.setBudget(1_000_000)
  expect(() => environment.render('a.html', { name: '', times: 8 * MiB }, 100)).toThrow(InstanceLostError)
  expect(instance.budget()).toBeGreaterThan(0)
  expect(instance.memoryBytes()).toBeLessThanOrEqual(maxBytes)
})

test('each call of a host filter gets texts up to a limit', () => {
  const module = new WebAssembly.Module(meter(minijinja, { maxBytes: 16 * MiB }))
  const instance = new Minijinja(module, { budget: 1_000_000, maxArgumentBytes: MiB })
  const environment = instance.newEnvironment()
  environment.addFilter('items', (list) => (list as unknown[]).length)
  environment.addTemplate('a.txt', '{% for _ in range(3) %}{{ ([big] * times)|items }}{% endfor %}')
  const render = (times: number): string => {
    instance.setBudget(1_000_000)
    return environment.render('a.txt', { big: 'x'.repeat(100 * KiB), times }, 100)
  }
  expect(render(10)).toBe('101010')
  expect(() => render(11)).toThrow(InstanceLostError)
  // Not for lack of memory: a new instance would fail as well.
  expect(instance.budget()).toBeLessThan(0)
})

test("minijinja-js's binary is the one whose binding and units of work are known", () => {
  expect(createHash('sha256').update(minijinja).digest('hex'), STEPS).toBe(SHA256)
})
