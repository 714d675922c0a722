/**
 * @module Minijinja's WASM module as functions: one `MinijinjaInstance` is one instance with a memory of its own, thrown away when it trapped. The package's
 * own binding holds a single instance for good, so this one is ours; the imports are those of minijinja-js 2.11.0, and another version does not
 * link. Values go in and come out as JSON has them, maps as `Map`. Knows nothing of templates' parts, bounds or faults.
 */

import { BUDGET_GLOBAL } from './metering.ts'

/** What a filter gets after its value: arguments, and a Map of the named ones at the end. */
export type JsFilter = (...args: readonly unknown[]) => unknown

/** A trap, an exhausted stack or memory: the instance is of no use any more. */
export class InstanceLost extends Error {
  override readonly name = 'InstanceLost'
}

/** What minijinja says is wrong with a template; the text is as it formats it. */
export class MinijinjaError extends Error {
  override readonly name = 'MinijinjaError'
}

/** A template became longer than it may. */
export class OutputTooLong extends Error {
  override readonly name = 'OutputTooLong'
}

/** Templates and filters that know nothing of those of another environment. Undefined is strict, methods are Python's. */
export interface Environment {
  addFilter(name: string, filter: JsFilter): void
  removeGlobal(name: string): void
  /** Throws a MinijinjaError when it cannot be compiled. A name that ends with `.html` escapes what it prints. */
  addTemplate(name: string, source: string): void
  /** Throws a MinijinjaError or OutputTooLong. */
  render(name: string, data: unknown, mostBytes: number): string
  free(): void
}

/** Everything throws InstanceLost at a trap, and so does everything after it. */
export interface MinijinjaInstance {
  newEnvironment(): Environment
  /** Units of work that are left; below 0: they were used up. */
  budget(): number
  setBudget(units: number): void
  /** Takes units for work that is done outside of the module; throws when they are used up. */
  charge(units: number): void
  /** Bytes of memory that it has taken from the system. */
  memoryBytes(): number
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
  /** Keeps what an import threw. */
  readonly __wbindgen_export_2: (handle: number) => void
  /** Frees. */
  readonly __wbindgen_export_3: (address: number, sizeBytes: number, alignment: number) => void
  readonly __wbindgen_add_to_stack_pointer: (bytes: number) => number
}

/** The module knows four values by fixed handles; those below them are never given away. */
const FIRST_CONSTANT = 128
const CONSTANTS = [undefined, null, true, false]
const FIRST_HANDLE = FIRST_CONSTANT + CONSTANTS.length

const STRICT_UNDEFINED = 0

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** What is shorter is free: it is bound to loops that cost something. */
const FREE_BYTES = 1024
const BYTES_OF_A_UNIT = 32

export interface MinijinjaOptions {
  /** Units for making it. */
  readonly budget: number
  /** Of texts that one call of a filter is handed: the same text in a list is handed as often as it is there. More uses up the budget. */
  readonly mostHandedBytes: number
}

/** @param module minijinja_js_bg.wasm with a meter in it */
export function createMinijinja(
  module: WebAssembly.Module,
  { budget, mostHandedBytes }: MinijinjaOptions,
): MinijinjaInstance {
  const handles: unknown[] = [...new Array<undefined>(FIRST_CONSTANT), ...CONSTANTS]
  const freeHandles: number[] = []
  let bytes = new Uint8Array(0)
  let words = new DataView(bytes.buffer)
  let handedBytes = 0

  const toHandle = (value: unknown): number => {
    const handle = freeHandles.pop() ?? handles.length
    handles[handle] = value
    return handle
  }
  const drop = (handle: number): void => {
    if (handle < FIRST_HANDLE) return
    handles[handle] = undefined
    freeHandles.push(handle)
  }
  const take = (handle: number): unknown => {
    const value = handles[handle]
    drop(handle)
    return value
  }
  const of = (handle: number): unknown => handles[handle]
  const objectOf = (handle: number): object => handles[handle] as object

  /** A memory that grew has a new buffer. */
  const look = (): void => {
    if (bytes.buffer === exports.memory.buffer) return
    bytes = new Uint8Array(exports.memory.buffer)
    words = new DataView(exports.memory.buffer)
  }
  const memory = (): Uint8Array<ArrayBuffer> => {
    look()
    return bytes
  }
  const setWord = (address: number, value: number): void => {
    look()
    words.setInt32(address, value, true)
  }
  const word = (address: number): number => {
    look()
    return words.getInt32(address, true)
  }
  const textAt = (address: number, sizeBytes: number): string => {
    chargeBytes(sizeBytes)
    return decoder.decode(memory().subarray(address >>> 0, (address >>> 0) + sizeBytes))
  }

  /** Copies a text into the memory of the module, which frees it. */
  const put = (text: string): readonly [address: number, sizeBytes: number] => {
    const sizeBytes = Buffer.byteLength(text)
    chargeBytes(sizeBytes)
    const address = exports.__wbindgen_export_0(sizeBytes, 1) >>> 0
    encoder.encodeInto(text, memory().subarray(address, address + sizeBytes))
    return [address, sizeBytes]
  }
  const answerText = (at: number, text: string | undefined): void => {
    const [address, sizeBytes] = text === undefined ? [0, 0] : put(text)
    setWord(at + 4, sizeBytes)
    setWord(at, address)
  }
  /** What an import throws goes back into the module, which answers for it. */
  const guarded =
    <A extends number[]>(act: (...args: A) => number) =>
    (...args: A): number => {
      try {
        return act(...args)
      } catch (error) {
        exports.__wbindgen_export_2(toHandle(error))
        return 0
      }
    }

  const wbg: Readonly<Record<string, (...args: never[]) => unknown>> = {
    __wbindgen_object_drop_ref: drop,
    __wbindgen_error_new: (address: number, size: number) => toHandle(new MinijinjaError(textAt(address, size))),
    __wbindgen_is_function: (value: number) => Number(typeof of(value) === 'function'),
    __wbindgen_is_array: (value: number) => Number(Array.isArray(of(value))),
    __wbg_isArray_a1eab7e0d067391b: (value: number) => Number(Array.isArray(of(value))),
    __wbindgen_is_object: (value: number) => Number(typeof of(value) === 'object' && of(value) !== null),
    __wbindgen_is_string: (value: number) => Number(typeof of(value) === 'string'),
    __wbindgen_is_bigint: (value: number) => Number(typeof of(value) === 'bigint'),
    __wbindgen_string_get: (at: number, value: number) => {
      const text = of(value)
      answerText(at, typeof text === 'string' ? text : undefined)
    },
    __wbindgen_string_new: (address: number, size: number) => {
      handedBytes += size
      if (handedBytes > mostHandedBytes) charge(Number.POSITIVE_INFINITY)
      return toHandle(textAt(address, size))
    },
    __wbindgen_boolean_get: (value: number) => {
      const given = of(value)
      return typeof given === 'boolean' ? Number(given) : 2
    },
    __wbindgen_number_get: (at: number, value: number) => {
      const given = of(value)
      setWord(at, Number(typeof given === 'number'))
      words.setFloat64(at + 8, typeof given === 'number' ? given : 0, true)
    },
    __wbindgen_number_new: (value: number) => toHandle(value),
    __wbindgen_bigint_get_as_i64: (at: number, value: number) => {
      const given = of(value)
      setWord(at, Number(typeof given === 'bigint'))
      words.setBigInt64(at + 8, typeof given === 'bigint' ? given : 0n, true)
    },
    __wbindgen_bigint_from_i64: (value: bigint) => toHandle(value),
    __wbindgen_bigint_from_u64: (value: bigint) => toHandle(BigInt.asUintN(64, value)),
    __wbindgen_bigint_from_i128: (high: bigint, low: bigint) => toHandle((high << 64n) | BigInt.asUintN(64, low)),
    __wbindgen_bigint_from_u128: (high: bigint, low: bigint) =>
      toHandle((BigInt.asUintN(64, high) << 64n) | BigInt.asUintN(64, low)),
    __wbindgen_in: (key: number, value: number) => Number((of(key) as PropertyKey) in objectOf(value)),
    __wbindgen_jsval_eq: (a: number, b: number) => Number(of(a) === of(b)),
    // Only asked whether a value is null or undefined.
    __wbindgen_jsval_loose_eq: (a: number, b: number) => Number((of(a) ?? null) === (of(b) ?? null)),
    __wbg_new_8a6f238a6ece86ea: () => toHandle(new Error('panic')),
    __wbg_stack_0ed75d68575b0f3c: (at: number) => answerText(at, ''),
    // A panic; the trap that follows says that there was one.
    __wbg_error_7534b8e9a36f1ab4: (address: number, size: number) => exports.__wbindgen_export_3(address, size, 1),
    __wbg_String_8f0eb39a4a4c2f66: (at: number, value: number) => answerText(at, String(of(value))),
    __wbindgen_debug_string: (at: number, value: number) => answerText(at, String(of(value))),
    __wbg_set_3f1d0b984ed272ed: (object: number, key: number, value: number) => {
      Object.defineProperty(objectOf(object), take(key) as PropertyKey, {
        value: take(value),
        writable: true,
        enumerable: true,
        configurable: true,
      })
    },
    __wbg_set_37837023f3d740e8: (array: number, index: number, value: number) => {
      ;(of(array) as unknown[])[index >>> 0] = take(value)
    },
    __wbg_set_8fc6bf8a5b1071d1: (map: number, key: number, value: number) =>
      toHandle((of(map) as Map<unknown, unknown>).set(of(key), of(value))),
    __wbg_set_65595bdd868b3009: (to: number, from: number, offset: number) =>
      (of(to) as Uint8Array).set(of(from) as Uint8Array, offset >>> 0),
    __wbg_get_b9b93047fe3cf45b: (array: number, index: number) => toHandle((of(array) as unknown[])[index >>> 0]),
    __wbg_get_67b2ba62fc30de12: guarded((object: number, key: number) =>
      toHandle(Reflect.get(objectOf(object), of(key) as PropertyKey)),
    ),
    __wbg_length_e2d2a49132c1b256: (array: number) => (of(array) as unknown[]).length,
    __wbg_length_a446193dc22c12f8: (array: number) => (of(array) as Uint8Array).length,
    __wbg_new_78feb108b6472713: () => toHandle([]),
    __wbg_new_5e0be73521bc8c17: () => toHandle(new Map()),
    __wbg_new_405e22f390576ce2: () => toHandle({}),
    __wbg_new_a12002a7f91c75be: (from: number) => toHandle(new Uint8Array(of(from) as ArrayBuffer)),
    __wbg_next_25feadfc0913fea9: (iterator: number) => toHandle((of(iterator) as Iterator<unknown>).next),
    __wbg_next_6574e1a8a62d1055: guarded((iterator: number) => toHandle((of(iterator) as Iterator<unknown>).next())),
    __wbg_done_769e5ede4b31c67b: (result: number) => Number((of(result) as IteratorResult<unknown>).done === true),
    __wbg_value_cd1ffa7b1ab794f1: (result: number) => toHandle((of(result) as IteratorResult<unknown>).value),
    __wbg_iterator_9a24c88df860dc65: () => toHandle(Symbol.iterator),
    __wbg_entries_3265d4158b33e5dc: (object: number) => toHandle(Object.entries(objectOf(object))),
    __wbg_from_2a5d3e218e67aa85: (iterable: number) => toHandle(Array.from(of(iterable) as Iterable<unknown>)),
    __wbg_push_737cfc8c1432c2c6: (array: number, value: number) => (of(array) as unknown[]).push(of(value)),
    __wbg_call_672a4d21634d4a24: guarded((callee: number, self: number) =>
      toHandle(Reflect.apply(of(callee) as () => unknown, of(self), [])),
    ),
    __wbg_apply_36be6a55257c99bf: guarded((callee: number, self: number, args: number) => {
      handedBytes = 0
      return toHandle(Reflect.apply(of(callee) as JsFilter, of(self), of(args) as unknown[]))
    }),
    __wbg_instanceof_ArrayBuffer_e14585432e3737fc: (value: number) => Number(of(value) instanceof ArrayBuffer),
    __wbg_instanceof_Map_f3469ce2244d2430: (value: number) => Number(of(value) instanceof Map),
    __wbg_instanceof_Uint8Array_17156bcf118086a9: (value: number) => Number(of(value) instanceof Uint8Array),
    __wbg_isSafeInteger_343e2beeeece1bb0: (value: number) => Number(Number.isSafeInteger(of(value))),
    __wbg_buffer_609cc3eee51ed158: (array: number) => toHandle((of(array) as Uint8Array | WebAssembly.Memory).buffer),
    __wbg_newwithbyteoffsetandlength_d97e637ebe145a9a: (buffer: number, offset: number, length: number) =>
      toHandle(new Uint8Array(of(buffer) as ArrayBuffer, offset >>> 0, length >>> 0)),
    __wbindgen_throw: (address: number, size: number) => {
      throw new InstanceLost(textAt(address, size))
    },
    __wbindgen_memory: () => toHandle(exports.memory),
  }

  const instance = new WebAssembly.Instance(module, { wbg })
  const exports = instance.exports as unknown as Exports

  const left = exports[BUDGET_GLOBAL]
  left.value = budget

  const charge = (units: number): void => {
    left.value = Math.max(left.value - Math.ceil(units), -1)
    if (left.value < 0) throw new InstanceLost('the budget is used up')
  }
  const chargeBytes = (sizeBytes: number): void => {
    if (sizeBytes > FREE_BYTES) charge(sizeBytes / BYTES_OF_A_UNIT)
  }

  /** Calls a function that answers through memory; `act` gets the address of the answer. */
  const answered = <T>(act: (at: number) => T): T => {
    let at: number
    try {
      at = exports.__wbindgen_add_to_stack_pointer(-16)
      return act(at)
    } catch (error) {
      // A trap, or a stack that was used up: what the module was in the middle of stays undone.
      if (error instanceof MinijinjaError || error instanceof OutputTooLong) throw error
      throw new InstanceLost(error instanceof Error ? error.message : String(error))
    }
  }
  const done = (): void => {
    exports.__wbindgen_add_to_stack_pointer(16)
  }
  const errorOf = (handle: number): MinijinjaError => {
    const error = take(handle)
    return error instanceof MinijinjaError ? error : new MinijinjaError(String(error))
  }

  /** For a call that answers nothing. */
  const called = (act: () => void): void =>
    answered(() => {
      act()
      done()
    })

  const newEnvironment = (): Environment => {
    const environment = answered(() => {
      const made = exports.environment_new() >>> 0
      done()
      return made
    })
    called(() => exports.environment_enablePyCompat(environment))
    answered((at) => {
      exports.environment_set_undefinedBehavior(at, environment, STRICT_UNDEFINED)
      done()
    })
    return {
      addFilter: (name, filter) =>
        called(() => exports.environment_addFilter(environment, ...put(name), toHandle(filter))),
      removeGlobal: (name) => called(() => exports.environment_removeGlobal(environment, ...put(name))),
      addTemplate: (name, source) =>
        answered((at) => {
          exports.environment_addTemplate(at, environment, ...put(name), ...put(source))
          const error = word(at + 4) === 0 ? undefined : errorOf(word(at))
          done()
          if (error) throw error
        }),
      render: (name, data, mostBytes) =>
        answered((at) => {
          handedBytes = 0
          exports.environment_renderTemplate(at, environment, ...put(name), toHandle(data))
          const [address, sizeBytes, error, isError] = [word(at), word(at + 4), word(at + 8), word(at + 12)]
          done()
          if (isError) throw errorOf(error)
          const text = sizeBytes > mostBytes ? undefined : textAt(address, sizeBytes)
          exports.__wbindgen_export_3(address, sizeBytes, 1)
          if (text === undefined) throw new OutputTooLong()
          return text
        }),
      free: () => called(() => exports.__wbg_environment_free(environment, 0)),
    }
  }

  return {
    newEnvironment,
    budget: () => left.value,
    setBudget: (units) => {
      left.value = units
    },
    charge,
    memoryBytes: () => exports.memory.buffer.byteLength,
  }
}
