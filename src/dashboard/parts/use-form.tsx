/** @module What a form knows: what was typed, what is sent of it, and what is wrong. */
import { type ReactNode, useState } from 'react'
import { flushSync } from 'react-dom'
import { type Stale, useChange } from '../api/data.ts'
import { FieldInput } from './field-input.tsx'
import { type Field, toBody, toField, toInput, type Values } from './fields.ts'
import { findFieldError } from './form.tsx'

export interface FormOptions<Body, Result> {
  /** By the names that they have in the body of the request. */
  readonly fields?: FieldsOf<Body> | ((values: Values) => FieldsOf<Body>)
  /** What is proposed, perhaps made of what is typed. */
  readonly initial?: object | ((typed: Values) => object)
  /** What is read again afterwards. */
  readonly refreshes?: readonly Stale[]
  run(body: Body): PromiseLike<Result>
}

type Name<Body> = keyof NoInfer<Body> & string
type FieldsOf<Body> = readonly (Name<Body> | Field<Name<Body>>)[]

export interface FormState<Body = unknown> {
  readonly fields: readonly Field[]
  /** Of the inputs; those that nobody typed into as they are proposed. */
  readonly values: Values
  show(fields: readonly Field[]): ReactNode
  /** As if it were typed. */
  set(inputs: Values): void
  /** What would be sent. @throws TassisError for what is no JSON */
  toBody(): Body
}

export interface FormHook<Body, Result> extends FormOptions<Body, Result> {
  /** What is changed: only what differs from it is sent, because somebody else may be changing the rest. */
  readonly stored?: object | undefined
  /** Why nothing may be changed. */
  readonly reason?: string | undefined
  readonly isFocused?: boolean
}

export function useForm<Body, Result>(options: FormHook<Body, Result>) {
  const { fields: given = [], stored, initial = stored ?? {}, refreshes = [], reason, isFocused = false, run } = options
  const [typed, setTyped] = useState<Values>({})
  /** What was saved stays shown until it was read again. */
  const [saved, setSaved] = useState<{ readonly over: object; readonly typed: Values }>()
  const base = typeof initial === 'function' ? initial(typed) : initial
  const shown: Values = { ...base, ...(saved?.over === stored && saved?.typed), ...typed }
  const fields: readonly Field[] = (typeof given === 'function' ? given(shown) : given).map(toField)
  const before = (field: Field) =>
    (saved?.over === stored ? saved?.typed[field.name] : undefined) ?? toInput(field, readPath(base, field.name))
  const inputOf = (field: Field) => (Object.hasOwn(typed, field.name) ? typed[field.name] : before(field))
  const changed = fields.filter((field) => inputOf(field) !== before(field))
  const values: Values = Object.fromEntries(fields.map((field) => [field.name, inputOf(field)]))
  const bodyOf = (sent: readonly Field[]) => toBody(sent, values, stored !== undefined) as Body
  const work = useChange(async (sent: readonly Field[]) => await run(bodyOf(sent)), ...refreshes)
  const set = (inputs: Values) => {
    if (!work.isPending && !work.isIdle) work.reset()
    setTyped((now) => ({ ...now, ...inputs }))
  }
  const submit = (onDone?: (result: Result) => unknown) => {
    if (reason !== undefined || work.isPending || (stored && changed.length === 0)) return
    work.mutate(stored ? changed : fields, {
      onSuccess: (result) => {
        // Before what leaves the screen, which would ask about unsaved changes.
        flushSync(() => {
          if (stored) setSaved({ over: stored, typed })
          setTyped((now) => (now === typed ? {} : now))
        })
        return onDone?.(result)
      },
    })
  }
  const show = (some: readonly Field[]): ReactNode =>
    some.map((field) => (
      <FieldInput
        key={field.name}
        field={field}
        isFirst={isFocused && field.name === fields[0]?.name}
        value={inputOf(field)}
        error={findFieldError(work.error, field.name) ?? findFieldError(work.error, field.errorName ?? field.name)}
        isReadOnly={reason !== undefined}
        set={(value) => set({ [field.name]: value })}
      />
    ))
  /** Of fields that show their errors themselves. */
  const names = fields.flatMap(({ name, errorName = name }) => [name, errorName])
  return {
    fields,
    names,
    values,
    show,
    set,
    toBody: () => bodyOf(fields),
    work,
    submit,
    isUnchanged: changed.length === 0,
  }
}

const readPath = (base: object, name: string): unknown =>
  name.split('.').reduce<unknown>((value, key) => (value as Values | null | undefined)?.[key], base)
