/** @module The end of a form: the button that saves it, and its errors beside the fields. */
import { Group, Text } from '@mantine/core'
import type { ReactNode } from 'react'
import { ApiError } from '../../api/client.ts'
import { SubmitButton } from '../../parts/action.tsx'
import { findFieldError } from '../../parts/field-error.ts'

interface SaveRowProps {
  readonly save: { readonly isPending: boolean; readonly isSuccess: boolean }
  readonly isUnchanged: boolean
  /** Why it cannot be saved, apart from being unchanged. */
  readonly reason?: string | undefined
  readonly label?: string
  /** Another button. */
  readonly children?: ReactNode
}

export function SaveRow({ save, isUnchanged, reason, label = 'Save', children }: SaveRowProps) {
  const obstacle = reason ?? (isUnchanged ? 'Nothing was changed yet.' : undefined)
  return (
    <Group>
      <SubmitButton reason={obstacle} loading={save.isPending}>
        {label}
      </SubmitButton>
      {children}
      <Text component="span" role="status" size="sm">
        {save.isSuccess && isUnchanged && 'Saved.'}
      </Text>
    </Group>
  )
}

/** The error, unless every part of it is shown beside one of these fields. */
export function omitFieldErrors(error: unknown, ...fields: readonly string[]): unknown {
  if (!(error instanceof ApiError) || !fields.some((field) => findFieldError(error, field) !== undefined)) return error
  return error.details.every(({ field }) => field !== undefined && fields.includes(field)) ? undefined : error
}
