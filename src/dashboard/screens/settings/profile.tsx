/** @module The signed-in user: password, authenticator app, browsers that are signed in. */
import { Text } from '@mantine/core'
import { useSession } from '../../api/session.tsx'
import { Facts, Section } from '../../parts/page.tsx'
import { Time } from '../../parts/time.tsx'
import { SettingsPage } from './frame.tsx'
import { PasswordForm } from './password-form.tsx'
import { SecondFactor } from './second-factor.tsx'
import { Sessions } from './sessions.tsx'

export default function ProfileScreen() {
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
      <Section title="Authenticator app">
        <SecondFactor />
      </Section>
      <Section title="Where you are signed in">
        <Text size="sm" maw={640}>
          If you do not know one of these browsers, sign it out and change your password.
        </Text>
        <Sessions />
      </Section>
    </SettingsPage>
  )
}
