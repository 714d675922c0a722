/** @module The frame of a form, and what the API says is wrong: beside its field or below the form. */
import { Group, Stack, type StackProps } from '@mantine/core'
import { useEffect, useRef } from 'react'
import { TassisError } from '#client/client.ts'
import { toWords } from './fields.ts'
import { ErrorNotice } from './page.tsx'

export interface FormProps extends Omit<StackProps, 'onSubmit' | 'ref'> {
  readonly 'aria-label'?: string
  readonly 'aria-labelledby'?: string
  /** Whether its fields are beside each other. */
  readonly isRow?: boolean
  /** Whether the browser leaves the checks to us; default: it does. */
  readonly noValidate?: boolean
  /** Of the request: the first field that is wrong gets the focus. */
  readonly error?: unknown
  onSubmit(): void
}

export function Form({ isRow = false, noValidate = true, error, onSubmit, children, ...props }: FormProps) {
  const { 'aria-label': label, 'aria-labelledby': labelledBy, ...layout } = props
  const form = useRef<HTMLFormElement>(null)
  useEffect(() => {
    if (error) form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus()
  }, [error])
  return (
    <form
      ref={form}
      aria-label={label}
      aria-labelledby={labelledBy}
      style={{ maxWidth: '100%' }}
      noValidate={noValidate}
      onSubmit={(event) => {
        event.preventDefault()
        // A dialog may be inside of another form in the tree of components, not on the page.
        event.stopPropagation()
        onSubmit()
      }}
    >
      {isRow ? (
        <Group align="flex-end" gap="xs">
          {children}
        </Group>
      ) : (
        <Stack {...layout}>{children}</Stack>
      )}
    </form>
  )
}

/** The value of an input, and what changes it. */
export const bindText = (value: string, set: (value: string) => void) => ({
  value,
  onChange: (event: { readonly currentTarget: { readonly value: string } }) => set(event.currentTarget.value),
})

export const bindChecked = (checked: boolean, set: (checked: boolean) => void) => ({
  checked,
  onChange: (event: { readonly currentTarget: { readonly checked: boolean } }) => set(event.currentTarget.checked),
})

/** The message for a field, or for a part of it ("Step 2: …"), in a 422; undefined for other errors. */
export function findFieldError(error: unknown, field: string): string | undefined {
  if (!(error instanceof TassisError) || error.status !== 422) return undefined
  const { field: part = '', message } = error.details.find((detail) => isOf(detail.field, field)) ?? {}
  const [, index, rest = ''] = /^\.(\d+)\.?(.*)/.exec(part.slice(field.length)) ?? []
  if (index === undefined || !field.endsWith('s')) return message
  const words = message?.replace(`${part}: `, '').replace(/^must/, `${rest} must`)
  return `${toWords(field).slice(0, -1)} ${Number(index) + 1}: ${words?.trim()}`
}

const isOf = (part: string | undefined, field: string): boolean =>
  part !== undefined && (part === field || part.startsWith(`${field}.`) || part.startsWith(`${field}[`))

interface FormErrorProps {
  readonly error: unknown
  /** Fields that show their errors themselves. */
  readonly fields?: readonly string[]
}

/** Shows nothing without an error, or if fields show all of it. */
export function FormError({ error: thrown, fields = [] }: FormErrorProps) {
  const error = omitFieldErrors(thrown, fields)
  return error ? <ErrorNotice error={error} /> : null
}

/** The error, unless every part of it is shown beside one of these fields. */
function omitFieldErrors(error: unknown, fields: readonly string[]): unknown {
  if (!(error instanceof TassisError) || !fields.some((field) => findFieldError(error, field) !== undefined))
    return error
  return error.details.every(({ field: part }) => fields.some((field) => isOf(part, field))) ? undefined : error
}
