/**
 * @module Pins what `metering.ts` and `minijinja.ts` rely on in minijinja-js's binary. Another version fails here
 * first, with the steps to take, before templates fail at run time.
 */
import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import wasmPath from 'minijinja-js/dist/web/minijinja_js_bg.wasm' with { type: 'file' }
import { BUDGET_GLOBAL, meter } from '#platform/template/metering.ts'
import { MiB } from '#platform/units.ts'
import { readLayout } from './binary-layout.ts'

const STEPS = `
The binary of minijinja-js is not the one that src/platform/template was written for.
1. If nobody meant to update it, install the version of package.json again (bun install --frozen-lockfile).
2. Compare dist/web/minijinja_js.js of both versions with minijinja.ts: every import (their hashes change with
   wasm-bindgen), every export with its arguments, the handles of undefined, null, true and false (from 128), and where
   a call leaves its results (16 bytes below the stack pointer).
3. If meter() throws, the binary has a section or an instruction that metering.ts does not know. Look it up in the
   specification of WebAssembly, teach skipImmediates() to pass it, and let it take units if it repeats, calls or copies.
4. Run bun test test/platform/template. The texts of errors (faults.ts), the tags and filters (adapt.ts, filters.ts) and
   the units that a render takes (limits.ts) may have changed as well.
5. Only then copy the values that this test received into it, and run bun scripts/dependencies-table.ts.
`

const SHA256 = 'df70623859ac4e418c4433d3841475a046c7bdabea439c1933063437fc824ea4'

const SECTIONS = [
  'type',
  'import',
  'function',
  'table',
  'memory',
  'global',
  'export',
  'element',
  'data-count',
  'code',
  'data',
  'custom',
]

/** The imports that `minijinja.ts` provides; the module starts only when they are complete. */
const IMPORTS = [
  'wbg.__wbg_String_8f0eb39a4a4c2f66(i32, i32) -> ()',
  'wbg.__wbg_apply_36be6a55257c99bf(i32, i32, i32) -> (i32)',
  'wbg.__wbg_buffer_609cc3eee51ed158(i32) -> (i32)',
  'wbg.__wbg_call_672a4d21634d4a24(i32, i32) -> (i32)',
  'wbg.__wbg_done_769e5ede4b31c67b(i32) -> (i32)',
  'wbg.__wbg_entries_3265d4158b33e5dc(i32) -> (i32)',
  'wbg.__wbg_error_7534b8e9a36f1ab4(i32, i32) -> ()',
  'wbg.__wbg_from_2a5d3e218e67aa85(i32) -> (i32)',
  'wbg.__wbg_get_67b2ba62fc30de12(i32, i32) -> (i32)',
  'wbg.__wbg_get_b9b93047fe3cf45b(i32, i32) -> (i32)',
  'wbg.__wbg_instanceof_ArrayBuffer_e14585432e3737fc(i32) -> (i32)',
  'wbg.__wbg_instanceof_Map_f3469ce2244d2430(i32) -> (i32)',
  'wbg.__wbg_instanceof_Uint8Array_17156bcf118086a9(i32) -> (i32)',
  'wbg.__wbg_isArray_a1eab7e0d067391b(i32) -> (i32)',
  'wbg.__wbg_isSafeInteger_343e2beeeece1bb0(i32) -> (i32)',
  'wbg.__wbg_iterator_9a24c88df860dc65() -> (i32)',
  'wbg.__wbg_length_a446193dc22c12f8(i32) -> (i32)',
  'wbg.__wbg_length_e2d2a49132c1b256(i32) -> (i32)',
  'wbg.__wbg_new_405e22f390576ce2() -> (i32)',
  'wbg.__wbg_new_5e0be73521bc8c17() -> (i32)',
  'wbg.__wbg_new_78feb108b6472713() -> (i32)',
  'wbg.__wbg_new_8a6f238a6ece86ea() -> (i32)',
  'wbg.__wbg_new_a12002a7f91c75be(i32) -> (i32)',
  'wbg.__wbg_newwithbyteoffsetandlength_d97e637ebe145a9a(i32, i32, i32) -> (i32)',
  'wbg.__wbg_next_25feadfc0913fea9(i32) -> (i32)',
  'wbg.__wbg_next_6574e1a8a62d1055(i32) -> (i32)',
  'wbg.__wbg_push_737cfc8c1432c2c6(i32, i32) -> (i32)',
  'wbg.__wbg_set_37837023f3d740e8(i32, i32, i32) -> ()',
  'wbg.__wbg_set_3f1d0b984ed272ed(i32, i32, i32) -> ()',
  'wbg.__wbg_set_65595bdd868b3009(i32, i32, i32) -> ()',
  'wbg.__wbg_set_8fc6bf8a5b1071d1(i32, i32, i32) -> (i32)',
  'wbg.__wbg_stack_0ed75d68575b0f3c(i32, i32) -> ()',
  'wbg.__wbg_value_cd1ffa7b1ab794f1(i32) -> (i32)',
  'wbg.__wbindgen_bigint_from_i128(i64, i64) -> (i32)',
  'wbg.__wbindgen_bigint_from_i64(i64) -> (i32)',
  'wbg.__wbindgen_bigint_from_u128(i64, i64) -> (i32)',
  'wbg.__wbindgen_bigint_from_u64(i64) -> (i32)',
  'wbg.__wbindgen_bigint_get_as_i64(i32, i32) -> ()',
  'wbg.__wbindgen_boolean_get(i32) -> (i32)',
  'wbg.__wbindgen_debug_string(i32, i32) -> ()',
  'wbg.__wbindgen_error_new(i32, i32) -> (i32)',
  'wbg.__wbindgen_in(i32, i32) -> (i32)',
  'wbg.__wbindgen_is_array(i32) -> (i32)',
  'wbg.__wbindgen_is_bigint(i32) -> (i32)',
  'wbg.__wbindgen_is_function(i32) -> (i32)',
  'wbg.__wbindgen_is_object(i32) -> (i32)',
  'wbg.__wbindgen_is_string(i32) -> (i32)',
  'wbg.__wbindgen_jsval_eq(i32, i32) -> (i32)',
  'wbg.__wbindgen_jsval_loose_eq(i32, i32) -> (i32)',
  'wbg.__wbindgen_memory() -> (i32)',
  'wbg.__wbindgen_number_get(i32, i32) -> ()',
  'wbg.__wbindgen_number_new(f64) -> (i32)',
  'wbg.__wbindgen_object_drop_ref(i32) -> ()',
  'wbg.__wbindgen_string_get(i32, i32) -> ()',
  'wbg.__wbindgen_string_new(i32, i32) -> (i32)',
  'wbg.__wbindgen_throw(i32, i32) -> ()',
]

/** The exports that `minijinja.ts` calls. */
const CALLED_EXPORTS = [
  '__wbg_environment_free(i32, i32) -> ()',
  '__wbindgen_add_to_stack_pointer(i32) -> (i32)',
  '__wbindgen_export_0(i32, i32) -> (i32)',
  '__wbindgen_export_2(i32) -> ()',
  '__wbindgen_export_3(i32, i32, i32) -> ()',
  'environment_addFilter(i32, i32, i32, i32) -> ()',
  'environment_addTemplate(i32, i32, i32, i32, i32, i32) -> ()',
  'environment_enablePyCompat(i32) -> ()',
  'environment_new() -> (i32)',
  'environment_removeGlobal(i32, i32, i32) -> ()',
  'environment_renderTemplate(i32, i32, i32, i32, i32) -> ()',
  'environment_set_undefinedBehavior(i32, i32, i32) -> ()',
  'memory: memory',
]

const wasm = readFileSync(wasmPath)

test("the layout of minijinja-js's binary is the one that the binding and the meter expect", () => {
  const { sections, imports, exports } = readLayout(wasm)
  expect(sections, STEPS).toEqual(SECTIONS)
  expect(imports, STEPS).toEqual(IMPORTS)
  const names = CALLED_EXPORTS.map(readExportName)
  expect(
    exports.filter((line) => names.includes(readExportName(line))),
    STEPS,
  ).toEqual(CALLED_EXPORTS)
})

test("minijinja-js's binary is the one whose units of work were measured", () => {
  expect(createHash('sha256').update(wasm).digest('hex'), STEPS).toBe(SHA256)
})

test('the meter understands every instruction of minijinja-js, and its output is valid', () => {
  let metered: Uint8Array<ArrayBuffer> | undefined
  expect(() => {
    metered = meter(wasm, { maxBytes: 16 * MiB })
  }, STEPS).not.toThrow()
  expect(metered && WebAssembly.validate(metered)).toBe(true)
  expect(readLayout(metered ?? wasm).exports).toContain(`${BUDGET_GLOBAL}: global`)
})

/** Reads the name in a line such as `environment_new() -> (i32)` or `memory: memory`. */
function readExportName(line: string): string {
  return line.split(/[(:]/, 1)[0] ?? ''
}
