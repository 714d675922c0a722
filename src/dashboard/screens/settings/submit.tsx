/** @module The button that saves a form, and its errors beside the fields. */
import { Button } from '@mantine/core'
import type { ReactNode } from 'react'
import { ApiError } from '../../api/client.ts'
import { ActionButton } from '../../parts/action.tsx'
import { findFieldError } from '../../parts/field-error.ts'

interface SubmitButtonProps {
  /** Why the form cannot be sent; undefined when it can. */
  readonly reason: string | undefined
  readonly isBusy: boolean
  readonly children: ReactNode
}

export const SubmitButton = ({ reason, isBusy, children }: SubmitButtonProps) =>
  reason === undefined ? (
    <Button type="submit" loading={isBusy}>
      {children}
    </Button>
  ) : (
    <ActionButton reason={reason} onClick={() => undefined}>
      {children}
    </ActionButton>
  )

/** The error, unless every part of it is shown beside one of these fields. */
export function omitFieldErrors(error: unknown, ...fields: readonly string[]): unknown {
  if (!(error instanceof ApiError) || !fields.some((field) => findFieldError(error, field) !== undefined)) return error
  return error.details.every(({ field }) => field !== undefined && fields.includes(field)) ? undefined : error
}
