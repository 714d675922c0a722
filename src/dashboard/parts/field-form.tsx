/** @module A form on a screen, as a table of its fields. */
import { Group, Text } from '@mantine/core'
import type { ReactNode } from 'react'
import { type Role, useAllowed } from '../api/session.tsx'
import { SubmitButton } from './buttons.tsx'
import { LeaveGuard } from './dialog.tsx'
import { Form, FormError, type FormProps } from './form.tsx'
import { Notice } from './status.tsx'
import { type FormHook, type FormState, useForm } from './use-form.tsx'

interface FieldFormProps<Body, Result>
  extends FormHook<Body, Result>,
    Pick<FormProps, 'maw' | 'gap' | 'align' | 'aria-label' | 'aria-labelledby'> {
  /** The role that may send it; others see why they may not. */
  readonly needs?: Role
  /** Of the button. */
  readonly label?: string
  /** What is said afterwards; default for what is stored: "Saved." */
  readonly done?: string
  /** Said to those who leave without saving. */
  readonly lost?: string
  /** Beside the button. */
  readonly actions?: ReactNode
  /** Where its fields are; default: below each other. */
  readonly layout?: (form: FormState) => ReactNode
  /** Whether not every field is always on the screen, so that all errors are shown below. */
  readonly hidesFields?: boolean
  onDone?(result: Result): unknown
}

/** A form on a screen, which sends what is typed, or what is changed of something stored. */
export function FieldForm<Body, Result>(props: FieldFormProps<Body, Result>) {
  const {
    needs = 'viewer',
    label = 'Save',
    done = 'Saved.',
    lost,
    actions,
    layout,
    hidesFields,
    onDone,
    ...options
  } = props
  const { maw, gap = 'md', align = 'flex-start', 'aria-label': name, 'aria-labelledby': labelledBy, stored } = options
  const roleReason = useAllowed(needs)
  const reason = options.reason ?? roleReason
  const form = useForm({ ...options, reason })
  const { fields, names, show, work, isUnchanged, submit } = form
  const labels = { ...(name && { 'aria-label': name }), ...(labelledBy && { 'aria-labelledby': labelledBy }) }
  return (
    <Form
      onSubmit={() => submit(onDone)}
      noValidate={false}
      error={work.error}
      gap={gap}
      align={align}
      {...(maw !== undefined && { maw })}
      {...labels}
    >
      {roleReason !== undefined && <Notice>{roleReason}</Notice>}
      {layout ? layout(form) : show(fields)}
      <Group>
        <SubmitButton
          reason={reason ?? (stored && isUnchanged ? 'Nothing was changed yet.' : undefined)}
          loading={work.isPending}
        >
          {label}
        </SubmitButton>
        {actions}
        <Text component="span" role="status" size="sm">
          {work.isSuccess && isUnchanged && done}
        </Text>
      </Group>
      <FormError error={work.error} fields={hidesFields ? [] : names} />
      {lost !== undefined && <LeaveGuard text={lost} isDirty={() => !isUnchanged} />}
    </Form>
  )
}
