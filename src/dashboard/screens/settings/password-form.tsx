/** @module Changes the own password. */
import { Button, Group, PasswordInput, Text, TextInput, VisuallyHidden } from '@mantine/core'
import { api } from '../../api/client.ts'
import { useChange } from '../../api/data.ts'
import { useSession } from '../../api/session.tsx'
import { Form, FormError, useFields } from '../../parts/form.tsx'

const EMPTY = { current_password: '', password: '' }

export function PasswordForm() {
  const { user } = useSession()
  const change = useChange((body: typeof EMPTY) => api.auth.setPassword(body), ['auth', 'listSessions'])
  const { values, set, field, fields } = useFields(EMPTY, change.error)
  const submit = () => change.mutate(values, { onSuccess: () => set(EMPTY) })
  return (
    <Form onSubmit={submit} aria-labelledby="password" noValidate={false} maw={420} align="flex-start">
      <VisuallyHidden>
        {/* Tells a password manager whose password this is. */}
        <TextInput label="Address" value={user.email} readOnly autoComplete="username" tabIndex={-1} />
      </VisuallyHidden>
      <PasswordInput
        {...field('current_password')}
        w="100%"
        required
        label="Current password"
        autoComplete="current-password"
      />
      <PasswordInput
        {...field('password')}
        w="100%"
        required
        label="New password"
        description="At least 10 characters. Four words that do not belong together are good."
        autoComplete="new-password"
      />
      <FormError error={change.error} fields={fields} />
      <Group>
        <Button type="submit" loading={change.isPending}>
          Change the password
        </Button>
        <Text component="span" role="status" size="sm">
          {change.isSuccess && 'The password was changed. All other browsers were signed out.'}
        </Text>
      </Group>
    </Form>
  )
}
