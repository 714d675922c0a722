/** @module The signed-in user: password, authenticator app, browsers that are signed in. */
import { Stack, Text, Title } from '@mantine/core'
import type { ReactNode } from 'react'
import { useSession } from '../../api/session.tsx'
import { Facts } from '../../parts/facts.tsx'
import { Time } from '../../parts/time.tsx'
import { SettingsPage } from './frame.tsx'
import { PasswordForm } from './password-form.tsx'
import { SecondFactor } from './second-factor.tsx'
import { Sessions } from './sessions.tsx'

export function ProfileScreen() {
  const { user, role, accounts } = useSession()
  return (
    <SettingsPage title="Your sign-in">
      <Facts
        facts={[
          ['Address', user.email],
          ['Name', user.name],
          ['Role here', role],
          ['Accounts', accounts.length > 1 && accounts.map(({ name }) => name).join(', ')],
          ['Last sign-in', <Time key="login" iso={user.last_login_at} />],
        ]}
      />
      <Section id="password" title="Password">
        <PasswordForm />
      </Section>
      <Section id="authenticator" title="Authenticator app">
        <SecondFactor />
      </Section>
      <Section id="sessions" title="Where you are signed in">
        <Text size="sm" maw={640}>
          If you do not know one of these browsers, sign it out and change your password.
        </Text>
        <Sessions />
      </Section>
    </SettingsPage>
  )
}

const Section = ({
  id,
  title,
  children,
}: {
  readonly id: string
  readonly title: string
  readonly children: ReactNode
}) => (
  <Stack component="section" gap="sm" aria-labelledby={id} align="stretch">
    <Title order={2} size="h4" id={id}>
      {title}
    </Title>
    {children}
  </Stack>
)
