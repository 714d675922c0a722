/** @module Changes the own password. */
import { Button, Group, PasswordInput, Stack, Text, TextInput, VisuallyHidden } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import { request } from '../../api/client.ts'
import { useSession } from '../../api/session.tsx'
import { FormError, findFieldError, omitFieldErrors } from '../../parts/form.tsx'
import { useChange } from './queries.ts'

const EMPTY = { current: '', next: '' }

export function PasswordForm() {
  const { user } = useSession()
  const [values, setValues] = useState(EMPTY)
  const change = useChange(
    ({ current, next }: typeof EMPTY) =>
      request('PUT', '/v1/auth/password', { body: { current_password: current, password: next } }),
    ['sessions'],
  )
  const submit = (event: FormEvent) => {
    event.preventDefault()
    change.mutate(values, { onSuccess: () => setValues(EMPTY) })
  }
  const field = (name: keyof typeof EMPTY) => ({
    value: values[name],
    onChange: (event: { currentTarget: { value: string } }) => {
      const { value } = event.currentTarget
      setValues((before) => ({ ...before, [name]: value }))
    },
    w: '100%',
    required: true,
  })
  return (
    <form onSubmit={submit} aria-labelledby="password">
      <Stack maw={420} align="flex-start">
        <VisuallyHidden>
          {/* Tells a password manager whose password this is. */}
          <TextInput label="Address" value={user.email} readOnly autoComplete="username" tabIndex={-1} />
        </VisuallyHidden>
        <PasswordInput
          {...field('current')}
          label="Current password"
          error={findFieldError(change.error, 'current_password')}
          autoComplete="current-password"
        />
        <PasswordInput
          {...field('next')}
          label="New password"
          description="At least 10 characters. Four words that do not belong together are good."
          error={findFieldError(change.error, 'password')}
          autoComplete="new-password"
        />
        <FormError error={omitFieldErrors(change.error, 'current_password', 'password')} />
        <Group>
          <Button type="submit" loading={change.isPending}>
            Change the password
          </Button>
          <Text component="span" role="status" size="sm">
            {change.isSuccess && 'The password was changed. All other browsers were signed out.'}
          </Text>
        </Group>
      </Stack>
    </form>
  )
}
