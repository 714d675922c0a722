/** @module The signed-in user: password, authenticator app, browsers that are signed in. */
import { Alert, Button, Group, PasswordInput, Stack, Text, TextInput, VisuallyHidden } from '@mantine/core'
import { useState } from 'react'
import type { SessionSummary } from '#client/operator-api.ts'
import { api, read } from '../../api/client.ts'
import { useChange, useData } from '../../api/data.ts'
import { SESSION, useSession } from '../../api/session.tsx'
import { Authenticator } from '../../parts/authenticator.tsx'
import { ActionButton, ConfirmDialog, DialogFrame, Form, FormError, SmallAction, useFields } from '../../parts/form.tsx'
import { Facts, QueryView, Section } from '../../parts/page.tsx'
import { showRecoveryCodes } from '../../parts/recovery-codes.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { type Column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { toBrowserWords } from './format.ts'
import { SettingsPage } from './frame.tsx'

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

const EMPTY = { current_password: '', password: '' }

function PasswordForm() {
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

const FEW_RECOVERY_CODES = 3

function SecondFactor() {
  const { user } = useSession()
  const [dialog, setDialog] = useState<'renew' | 'off'>()
  const close = () => setDialog(undefined)
  if (!user.totp_enabled)
    return (
      <Stack gap="sm" align="flex-start">
        <StatusLabel tone="warning">Off</StatusLabel>
        <Text size="sm" maw={640}>
          With an app that shows a new code every 30 seconds, a stolen password is not enough to sign in.
        </Text>
        <Authenticator />
      </Stack>
    )
  const left = user.recovery_codes_left
  return (
    <Stack gap="sm" align="flex-start">
      <StatusLabel tone="good">On</StatusLabel>
      <Text size="sm" maw={640}>
        Signing in needs a code of the app, or one of your recovery codes. {left} recovery code
        {left === 1 ? ' is' : 's are'} left.
      </Text>
      {left <= FEW_RECOVERY_CODES && (
        <Alert color="yellow" title="Few recovery codes are left">
          Without them and without the app you cannot sign in. Renew them now.
        </Alert>
      )}
      <Group gap="xs">
        <SmallAction onClick={() => setDialog('renew')}>Renew the recovery codes</SmallAction>
        <SmallAction onClick={() => setDialog('off')}>Turn it off</SmallAction>
      </Group>
      {dialog === 'renew' && <RenewDialog onClose={close} />}
      {dialog === 'off' && <TurnOffDialog onClose={close} />}
    </Stack>
  )
}

const NO_FACTORS = { password: '', code: '' }

const RenewDialog = ({ onClose }: { onClose(): void }) => (
  <FactorDialog
    title="Renew the recovery codes?"
    confirm="Renew"
    text="You get ten new codes. Those before become invalid."
    run={async (factors) => {
      const { data } = await api.auth.renewRecoveryCodes(factors)
      showRecoveryCodes({ done: 'The codes that you had before are no longer valid.', codes: data.recovery_codes })
    }}
    onClose={onClose}
  />
)

const TurnOffDialog = ({ onClose }: { onClose(): void }) => (
  <FactorDialog
    title="Turn the authenticator app off?"
    confirm="Turn it off"
    isDangerous
    text="Your password alone is then enough to sign in as you. The recovery codes become invalid."
    run={api.auth.deleteTotp}
    onClose={onClose}
  />
)

interface FactorDialogProps {
  readonly title: string
  readonly confirm: string
  readonly isDangerous?: boolean
  readonly text: string
  run(factors: typeof NO_FACTORS): PromiseLike<unknown>
  onClose(): void
}

/** Asks for both factors before a change. */
function FactorDialog({ text, run, ...frame }: FactorDialogProps) {
  const change = useChange(run, SESSION)
  const { values, field, fields } = useFields(NO_FACTORS, change.error)
  return (
    <DialogFrame
      {...frame}
      work={change}
      fields={fields}
      isIncomplete={values.password === '' || values.code === ''}
      onConfirm={() => change.mutate(values, { onSuccess: frame.onClose })}
    >
      <Text>{text}</Text>
      <PasswordInput {...field('password')} label="Password" autoComplete="current-password" required data-autofocus />
      <TextInput
        {...field('code')}
        label="Code"
        description="Six digits of the app, or a recovery code."
        autoComplete="one-time-code"
        required
      />
    </DialogFrame>
  )
}

/** What is ended: one session, or all but that of this page. */
type Ending = SessionSummary | 'others'

function Sessions() {
  const query = useData(read.auth.listSessions())
  const [ending, setEnding] = useState<Ending>()
  const columns: readonly Column<SessionSummary>[] = [
    {
      header: 'Browser',
      width: '30%',
      cell: ({ user_agent: userAgent, is_current: isCurrent }) => (
        <Stack gap={0}>
          <Text size="sm" lineClamp={3} {...(userAgent !== null && { title: userAgent })}>
            <bdi>{toBrowserWords(userAgent)}</bdi>
          </Text>
          {isCurrent && <StatusLabel tone="good">This browser</StatusLabel>}
        </Stack>
      ),
    },
    { header: 'Network', cell: ({ ip_address: address }) => address ?? '–' },
    { header: 'Last used', cell: ({ last_seen_at: at }) => <Time iso={at} /> },
    { header: 'Signed in', cell: ({ created_at: at }) => <Time iso={at} /> },
    {
      header: 'Actions',
      width: '18%',
      cell: (session) => (
        <SmallAction
          size="compact-sm"
          reason={session.is_current ? 'This is the browser that you use now. Sign out in the menu above.' : undefined}
          onClick={() => setEnding(session)}
          aria-label={`Sign out ${toBrowserWords(session.user_agent)}`}
        >
          Sign out
        </SmallAction>
      ),
    },
  ]
  return (
    <QueryView query={query}>
      {(data) => (
        <Stack gap="sm" align="stretch">
          <DataTable label="Browsers" columns={columns} rows={data} toKey={({ id }) => id} />
          <Group>
            <ActionButton
              size="xs"
              variant="default"
              reason={data.length < 2 ? 'You are signed in nowhere else.' : undefined}
              onClick={() => setEnding('others')}
            >
              Sign out all other browsers
            </ActionButton>
          </Group>
          {ending && <EndDialog ending={ending} onClose={() => setEnding(undefined)} />}
        </Stack>
      )}
    </QueryView>
  )
}

function EndDialog({ ending, onClose }: { readonly ending: Ending; onClose(): void }) {
  const isAll = ending === 'others'
  return (
    <ConfirmDialog
      title={isAll ? 'Sign out all other browsers?' : 'Sign out this browser?'}
      confirm="Sign out"
      isDangerous
      refreshes={[['auth', 'listSessions']]}
      run={async () => void (await (isAll ? api.auth.deleteSessions() : api.auth.deleteSession(ending.id)))}
      onClose={onClose}
    >
      <Text>
        {isAll ? 'You stay signed in here. Everywhere else' : 'There'} you must sign in again before the next click.
        What was typed and not saved {isAll ? 'there ' : ''}stays on the page.
      </Text>
    </ConfirmDialog>
  )
}
