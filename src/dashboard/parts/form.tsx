/** @module The frame of a form. */
import { Group, Stack, type StackProps } from '@mantine/core'
import { useEffect, useRef } from 'react'

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
