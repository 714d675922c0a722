/**
 * @module Runs minijinja's WASM module: each `Minijinja` is an instance with its own memory, which is discarded when
 * the instance traps. The package's own binding keeps a single instance permanently, so this binding replaces it. The
 * imports are those of minijinja-js 2.11.0; other versions do not link. Values are as in JSON, with maps as `Map`.
 * Knows nothing of message parts, limits or template errors.
 */

import { BUDGET_GLOBAL } from './metering.ts'

/** A filter. It gets the value, then the positional arguments, and at the end a Map of the named ones. */
export type JsFilter = (...args: readonly unknown[]) => unknown

/** A trap, or an exhausted stack or memory: the instance can no longer be used. */
export class InstanceLostError extends Error {
  override readonly name = 'InstanceLostError'
}

/** Minijinja's error for a template, in its own words. */
export class MinijinjaError extends Error {
  override readonly name = 'MinijinjaError'
}

/** A rendered template is too long. */
export class OutputTooLongError extends Error {
  override readonly name = 'OutputTooLongError'
}

interface Exports extends Readonly<Record<string, unknown>> {
  readonly memory: WebAssembly.Memory
  readonly [BUDGET_GLOBAL]: WebAssembly.Global
  readonly environment_new: () => number
  readonly __wbg_environment_free: (environment: number, always0: number) => void
  readonly environment_addTemplate: (...args: number[]) => void
  readonly environment_removeGlobal: (...args: number[]) => void
  readonly environment_renderTemplate: (...args: number[]) => void
  readonly environment_addFilter: (...args: number[]) => void
  readonly environment_enablePyCompat: (environment: number) => void
  readonly environment_set_undefinedBehavior: (...args: number[]) => void
  /** Allocates. */
  readonly __wbindgen_export_0: (sizeBytes: number, alignment: number) => number
  /** Stores the error that an import threw. */
  readonly __wbindgen_export_2: (handle: number) => void
  /** Frees. */
  readonly __wbindgen_export_3: (address: number, sizeBytes: number, alignment: number) => void
  readonly __wbindgen_add_to_stack_pointer: (bytes: number) => number
}

/** The module has fixed handles for four values; lower handles are never assigned. */
const FIRST_CONSTANT = 128
const CONSTANTS = [undefined, null, true, false]
const FIRST_HANDLE = FIRST_CONSTANT + CONSTANTS.length

const STRICT_UNDEFINED = 0

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** Shorter texts are free, because the loops that produce them are charged. */
const FREE_BYTES = 1024
const BYTES_PER_UNIT = 32

export interface MinijinjaOptions {
  /** Units for creating the instance. */
  readonly budget: number
  /**
   * Limit for the texts passed to one filter call; a text counts as often as it occurs in a list. A call with more text
   * uses up the whole budget.
   */
  readonly maxArgumentBytes: number
}

/** The values that the module references by number. */
class Handles {
  readonly #values: unknown[] = [...new Array<undefined>(FIRST_CONSTANT), ...CONSTANTS]
  readonly #free: number[] = []

  add(value: unknown): number {
    const handle = this.#free.pop() ?? this.#values.length
    this.#values[handle] = value
    return handle
  }

  of(handle: number): unknown {
    return this.#values[handle]
  }

  objectOf(handle: number): object {
    return this.#values[handle] as object
  }

  drop(handle: number): void {
    if (handle < FIRST_HANDLE) return
    this.#values[handle] = undefined
    this.#free.push(handle)
  }

  take(handle: number): unknown {
    const value = this.#values[handle]
    this.drop(handle)
    return value
  }
}

/** Functions by the names under which the module imports them. */
type Imports = Readonly<Record<string, (...args: never[]) => unknown>>

export type Environment = ReturnType<Minijinja['newEnvironment']>

/** One instance of the module. A trap throws InstanceLostError, and so does every later call. */
export class Minijinja {
  readonly #maxArgumentBytes: number
  readonly #handles = new Handles()
  readonly #exports: Exports
  readonly #budget: WebAssembly.Global
  #bytes = new Uint8Array(0)
  #words = new DataView(this.#bytes.buffer)
  #argumentBytes = 0

  /** @param module minijinja_js_bg.wasm with a meter */
  constructor(module: WebAssembly.Module, { budget, maxArgumentBytes: mostHandedBytes }: MinijinjaOptions) {
    this.#maxArgumentBytes = mostHandedBytes
    const wbg = { ...this.#valueImports(), ...this.#objectImports() }
    this.#exports = new WebAssembly.Instance(module, { wbg }).exports as unknown as Exports
    this.#budget = this.#exports[BUDGET_GLOBAL]
    this.#budget.value = budget
  }

  /** Remaining units of work; below 0: they were used up. */
  budget(): number {
    return this.#budget.value
  }

  setBudget(units: number): void {
    this.#budget.value = units
  }

  /** Bytes of memory allocated from the system. */
  memoryBytes(): number {
    return this.#exports.memory.buffer.byteLength
  }

  /** Charges units for work outside of the module; throws when they are used up. */
  charge(units: number): void {
    this.#budget.value = Math.max(this.#budget.value - Math.ceil(units), -1)
    if (this.#budget.value < 0) throw new InstanceLostError('the budget is used up')
  }

  /**
   * Templates and filters, isolated from other environments. Undefined values are handled strictly; values have Python's
   * methods.
   */
  newEnvironment() {
    const environment = this.#callWithReturn(() => {
      const made = this.#exports.environment_new() >>> 0
      this.#popStack()
      return made
    })
    this.#callVoid(() => this.#exports.environment_enablePyCompat(environment))
    this.#callWithReturn((at) => {
      this.#exports.environment_set_undefinedBehavior(at, environment, STRICT_UNDEFINED)
      this.#popStack()
    })
    return {
      addFilter: (name: string, filter: JsFilter): void =>
        this.#callVoid(() =>
          this.#exports.environment_addFilter(environment, ...this.#writeText(name), this.#handles.add(filter)),
        ),
      removeGlobal: (name: string): void =>
        this.#callVoid(() => this.#exports.environment_removeGlobal(environment, ...this.#writeText(name))),
      /**
       * Throws a MinijinjaError when the template cannot be compiled. A template whose name ends with `.html` escapes
       * its output.
       */
      addTemplate: (name: string, source: string): void =>
        this.#callWithReturn((at) => {
          this.#exports.environment_addTemplate(at, environment, ...this.#writeText(name), ...this.#writeText(source))
          const error = this.#readWord(at + 4) === 0 ? undefined : this.#takeError(this.#readWord(at))
          this.#popStack()
          if (error) throw error
        }),
      /** Throws a MinijinjaError or OutputTooLongError. */
      render: (name: string, data: unknown, maxBytes: number): string =>
        this.#callWithReturn((at) => {
          this.#argumentBytes = 0
          this.#exports.environment_renderTemplate(at, environment, ...this.#writeText(name), this.#handles.add(data))
          const [address, sizeBytes, error, isError] = [
            this.#readWord(at),
            this.#readWord(at + 4),
            this.#readWord(at + 8),
            this.#readWord(at + 12),
          ]
          this.#popStack()
          if (isError) throw this.#takeError(error)
          const text = sizeBytes > maxBytes ? undefined : this.#readText(address, sizeBytes)
          this.#exports.__wbindgen_export_3(address, sizeBytes, 1)
          if (text === undefined) throw new OutputTooLongError()
          return text
        }),
      free: (): void => this.#callVoid(() => this.#exports.__wbg_environment_free(environment, 0)),
    }
  }

  /** Imports that read and create single values. */
  #valueImports(): Imports {
    const handles = this.#handles
    return {
      __wbindgen_object_drop_ref: (handle: number) => handles.drop(handle),
      __wbindgen_error_new: (address: number, size: number) =>
        handles.add(new MinijinjaError(this.#readText(address, size))),
      __wbindgen_is_function: (value: number) => Number(typeof handles.of(value) === 'function'),
      __wbindgen_is_array: (value: number) => Number(Array.isArray(handles.of(value))),
      __wbg_isArray_a1eab7e0d067391b: (value: number) => Number(Array.isArray(handles.of(value))),
      __wbindgen_is_object: (value: number) =>
        Number(typeof handles.of(value) === 'object' && handles.of(value) !== null),
      __wbindgen_is_string: (value: number) => Number(typeof handles.of(value) === 'string'),
      __wbindgen_is_bigint: (value: number) => Number(typeof handles.of(value) === 'bigint'),
      __wbindgen_string_get: (at: number, value: number) => {
        const text = handles.of(value)
        this.#returnText(at, typeof text === 'string' ? text : undefined)
      },
      __wbindgen_string_new: (address: number, size: number) => {
        this.#argumentBytes += size
        if (this.#argumentBytes > this.#maxArgumentBytes) this.charge(Number.POSITIVE_INFINITY)
        return handles.add(this.#readText(address, size))
      },
      __wbindgen_boolean_get: (value: number) => {
        const given = handles.of(value)
        return typeof given === 'boolean' ? Number(given) : 2
      },
      __wbindgen_number_get: (at: number, value: number) => {
        const given = handles.of(value)
        this.#setWord(at, Number(typeof given === 'number'))
        this.#words.setFloat64(at + 8, typeof given === 'number' ? given : 0, true)
      },
      __wbindgen_number_new: (value: number) => handles.add(value),
      __wbindgen_bigint_get_as_i64: (at: number, value: number) => {
        const given = handles.of(value)
        this.#setWord(at, Number(typeof given === 'bigint'))
        this.#words.setBigInt64(at + 8, typeof given === 'bigint' ? given : 0n, true)
      },
      __wbindgen_bigint_from_i64: (value: bigint) => handles.add(value),
      __wbindgen_bigint_from_u64: (value: bigint) => handles.add(BigInt.asUintN(64, value)),
      __wbindgen_bigint_from_i128: (high: bigint, low: bigint) => handles.add((high << 64n) | BigInt.asUintN(64, low)),
      __wbindgen_bigint_from_u128: (high: bigint, low: bigint) =>
        handles.add((BigInt.asUintN(64, high) << 64n) | BigInt.asUintN(64, low)),
      __wbindgen_in: (key: number, value: number) =>
        Number((handles.of(key) as PropertyKey) in handles.objectOf(value)),
      __wbindgen_jsval_eq: (a: number, b: number) => Number(handles.of(a) === handles.of(b)),
      // Imitates `==` as far as needed: the module uses it only to test whether a value is null or undefined.
      __wbindgen_jsval_loose_eq: (a: number, b: number) => Number((handles.of(a) ?? null) === (handles.of(b) ?? null)),
      __wbg_new_8a6f238a6ece86ea: () => handles.add(new Error('panic')),
      __wbg_stack_0ed75d68575b0f3c: (at: number) => this.#returnText(at, ''),
      // The message of a panic. It is only freed here, because the trap that follows reports the panic.
      __wbg_error_7534b8e9a36f1ab4: (address: number, size: number) =>
        this.#exports.__wbindgen_export_3(address, size, 1),
      __wbg_String_8f0eb39a4a4c2f66: (at: number, value: number) => this.#returnText(at, String(handles.of(value))),
      __wbindgen_debug_string: (at: number, value: number) => this.#returnText(at, String(handles.of(value))),
      __wbg_instanceof_ArrayBuffer_e14585432e3737fc: (value: number) =>
        Number(handles.of(value) instanceof ArrayBuffer),
      __wbg_instanceof_Map_f3469ce2244d2430: (value: number) => Number(handles.of(value) instanceof Map),
      __wbg_instanceof_Uint8Array_17156bcf118086a9: (value: number) => Number(handles.of(value) instanceof Uint8Array),
      __wbg_isSafeInteger_343e2beeeece1bb0: (value: number) => Number(Number.isSafeInteger(handles.of(value))),
      __wbindgen_throw: (address: number, size: number) => {
        throw new InstanceLostError(this.#readText(address, size))
      },
      __wbindgen_memory: () => handles.add(this.#exports.memory),
    }
  }

  /** Imports that use objects, lists and maps. */
  #objectImports(): Imports {
    const handles = this.#handles
    return {
      __wbg_set_3f1d0b984ed272ed: (object: number, key: number, value: number) => {
        Object.defineProperty(handles.objectOf(object), handles.take(key) as PropertyKey, {
          value: handles.take(value),
          writable: true,
          enumerable: true,
          configurable: true,
        })
      },
      __wbg_set_37837023f3d740e8: (array: number, index: number, value: number) => {
        ;(handles.of(array) as unknown[])[index >>> 0] = handles.take(value)
      },
      __wbg_set_8fc6bf8a5b1071d1: (map: number, key: number, value: number) =>
        handles.add((handles.of(map) as Map<unknown, unknown>).set(handles.of(key), handles.of(value))),
      __wbg_set_65595bdd868b3009: (to: number, from: number, offset: number) =>
        (handles.of(to) as Uint8Array).set(handles.of(from) as Uint8Array, offset >>> 0),
      __wbg_get_b9b93047fe3cf45b: (array: number, index: number) =>
        handles.add((handles.of(array) as unknown[])[index >>> 0]),
      __wbg_get_67b2ba62fc30de12: this.#catchErrors((object: number, key: number) =>
        handles.add(Reflect.get(handles.objectOf(object), handles.of(key) as PropertyKey)),
      ),
      __wbg_length_e2d2a49132c1b256: (array: number) => (handles.of(array) as unknown[]).length,
      __wbg_length_a446193dc22c12f8: (array: number) => (handles.of(array) as Uint8Array).length,
      __wbg_new_78feb108b6472713: () => handles.add([]),
      __wbg_new_5e0be73521bc8c17: () => handles.add(new Map()),
      __wbg_new_405e22f390576ce2: () => handles.add({}),
      __wbg_new_a12002a7f91c75be: (from: number) => handles.add(new Uint8Array(handles.of(from) as ArrayBuffer)),
      __wbg_next_25feadfc0913fea9: (iterator: number) => handles.add((handles.of(iterator) as Iterator<unknown>).next),
      __wbg_next_6574e1a8a62d1055: this.#catchErrors((iterator: number) =>
        handles.add((handles.of(iterator) as Iterator<unknown>).next()),
      ),
      __wbg_done_769e5ede4b31c67b: (result: number) =>
        Number((handles.of(result) as IteratorResult<unknown>).done === true),
      __wbg_value_cd1ffa7b1ab794f1: (result: number) =>
        handles.add((handles.of(result) as IteratorResult<unknown>).value),
      __wbg_iterator_9a24c88df860dc65: () => handles.add(Symbol.iterator),
      __wbg_entries_3265d4158b33e5dc: (object: number) => handles.add(Object.entries(handles.objectOf(object))),
      __wbg_from_2a5d3e218e67aa85: (iterable: number) =>
        handles.add(Array.from(handles.of(iterable) as Iterable<unknown>)),
      __wbg_push_737cfc8c1432c2c6: (array: number, value: number) =>
        (handles.of(array) as unknown[]).push(handles.of(value)),
      __wbg_call_672a4d21634d4a24: this.#catchErrors((callee: number, self: number) =>
        handles.add(Reflect.apply(handles.of(callee) as () => unknown, handles.of(self), [])),
      ),
      __wbg_apply_36be6a55257c99bf: this.#catchErrors((callee: number, self: number, args: number) => {
        this.#argumentBytes = 0
        return handles.add(
          Reflect.apply(handles.of(callee) as JsFilter, handles.of(self), handles.of(args) as unknown[]),
        )
      }),
      __wbg_buffer_609cc3eee51ed158: (array: number) =>
        handles.add((handles.of(array) as Uint8Array | WebAssembly.Memory).buffer),
      __wbg_newwithbyteoffsetandlength_d97e637ebe145a9a: (buffer: number, offset: number, length: number) =>
        handles.add(new Uint8Array(handles.of(buffer) as ArrayBuffer, offset >>> 0, length >>> 0)),
    }
  }

  /** Replaces the views of the memory when it has grown, because it then has a new buffer. */
  #refreshViews(): void {
    if (this.#bytes.buffer === this.#exports.memory.buffer) return
    this.#bytes = new Uint8Array(this.#exports.memory.buffer)
    this.#words = new DataView(this.#exports.memory.buffer)
  }

  #memory(): Uint8Array<ArrayBuffer> {
    this.#refreshViews()
    return this.#bytes
  }

  #setWord(address: number, value: number): void {
    this.#refreshViews()
    this.#words.setInt32(address, value, true)
  }

  #readWord(address: number): number {
    this.#refreshViews()
    return this.#words.getInt32(address, true)
  }

  #readText(address: number, sizeBytes: number): string {
    this.#chargeBytes(sizeBytes)
    return decoder.decode(this.#memory().subarray(address >>> 0, (address >>> 0) + sizeBytes))
  }

  /** Copies a text into the module's memory; the module frees the copy. */
  #writeText(text: string): readonly [address: number, sizeBytes: number] {
    const sizeBytes = Buffer.byteLength(text)
    this.#chargeBytes(sizeBytes)
    const address = this.#exports.__wbindgen_export_0(sizeBytes, 1) >>> 0
    encoder.encodeInto(text, this.#memory().subarray(address, address + sizeBytes))
    return [address, sizeBytes]
  }

  #returnText(at: number, text: string | undefined): void {
    const [address, sizeBytes] = text === undefined ? [0, 0] : this.#writeText(text)
    this.#setWord(at + 4, sizeBytes)
    this.#setWord(at, address)
  }

  /** Passes errors of an import back into the module, which handles them. */
  #catchErrors<A extends number[]>(act: (...args: A) => number) {
    return (...args: A): number => {
      try {
        return act(...args)
      } catch (error) {
        this.#exports.__wbindgen_export_2(this.#handles.add(error))
        return 0
      }
    }
  }

  #chargeBytes(sizeBytes: number): void {
    if (sizeBytes > FREE_BYTES) this.charge(sizeBytes / BYTES_PER_UNIT)
  }

  /** Calls a function of the module that returns its result through memory; `act` gets the address of the result. */
  #callWithReturn<T>(act: (at: number) => T): T {
    let at: number
    try {
      at = this.#exports.__wbindgen_add_to_stack_pointer(-16)
      return act(at)
    } catch (error) {
      // A trap or an exhausted stack leaves the module in an undefined state.
      if (error instanceof MinijinjaError || error instanceof OutputTooLongError) throw error
      throw new InstanceLostError(error instanceof Error ? error.message : String(error))
    }
  }

  #popStack(): void {
    this.#exports.__wbindgen_add_to_stack_pointer(16)
  }

  #takeError(handle: number): MinijinjaError {
    const error = this.#handles.take(handle)
    return error instanceof MinijinjaError ? error : new MinijinjaError(String(error))
  }

  /** Calls a function of the module that has no result. */
  #callVoid(act: () => void): void {
    this.#callWithReturn(() => {
      act()
      this.#popStack()
    })
  }
}
