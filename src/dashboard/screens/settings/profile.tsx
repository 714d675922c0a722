/** @module The signed-in user: password, passkeys, authenticator app, browsers that are signed in. */
import { Group, Stack, Text, TextInput, VisuallyHidden } from '@mantine/core'
import type { Session, SessionSummary } from '#client/operator-api.ts'
import { api, read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { SESSION, useSession } from '../../api/session.tsx'
import { Authenticator } from '../../parts/authenticator.tsx'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { FieldForm } from '../../parts/field-form.tsx'
import { Facts, QueryView, Section } from '../../parts/page.tsx'
import { createPasskey, hasPasskeys } from '../../parts/passkey.ts'
import { CODE, PASSWORD, usePasswordAgain } from '../../parts/password-again.tsx'
import { showRecoveryCodes } from '../../parts/secret-dialog.tsx'
import { Notice, StatusLabel } from '../../parts/status.tsx'
import { type Column, column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { toBrowserWords } from './audit-format.ts'
import { SettingsPage, toRoleWord } from './frame.tsx'

export default function ProfileScreen() {
  const { user, role, accounts, sign_on_name: signOnName } = useSession()
  return (
    <SettingsPage title="Your sign-in">
      <Facts
        facts={[
          ['Address', user.email],
          ['Name', user.name],
          ['Role here', toRoleWord(role)],
          ['Accounts', accounts.length > 1 && accounts.map(({ name }) => name).join(', ')],
          ['Last sign-in', <Time key="login" iso={user.last_login_at} />],
        ]}
      />
      <Section id="password" title="Password">
        {user.has_password ? (
          <PasswordForm user={user} />
        ) : (
          <Text>You have none: you sign in with {signOnName ?? 'a passkey'}.</Text>
        )}
      </Section>
      <Section title="Passkeys">
        <Passkeys />
      </Section>
      <Section title="Authenticator app">
        <SecondFactor />
      </Section>
      <Section
        title="Where you are signed in"
        description="If you do not know one of these browsers, sign it out and change your password."
      >
        <Sessions />
      </Section>
    </SettingsPage>
  )
}

const PasswordForm = ({ user }: Pick<Session, 'user'>) => (
  <FieldForm
    aria-labelledby="password"
    maw={420}
    label="Change the password"
    done="The password was changed. All other browsers were signed out."
    refreshes={[['auth', 'listSessions']]}
    run={api.auth.setPassword}
    fields={[
      {
        name: 'current_password',
        label: 'Current password',
        kind: 'password',
        autoComplete: 'current-password',
        isRequired: true,
      },
      {
        name: 'password',
        label: 'New password',
        kind: 'password',
        hint: 'At least 10 characters. Four words that do not belong together are good.',
        autoComplete: 'new-password',
        isRequired: true,
      },
    ]}
    layout={({ fields, show }) => (
      <>
        <VisuallyHidden>
          {/* Tells a password manager whose password this is. */}
          <TextInput label="Address" value={user.email} readOnly autoComplete="username" tabIndex={-1} />
        </VisuallyHidden>
        {show(fields)}
      </>
    )}
  />
)

const FEW_RECOVERY_CODES = 3

function SecondFactor() {
  const { user } = useSession()
  if (!user.totp_enabled)
    return (
      <Stack gap="sm" align="flex-start">
        <Text>With codes of an app, a stolen password is not enough to sign in.</Text>
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
        <Notice tone="warning" title="Few recovery codes are left">
          Without them and without the app you cannot sign in. Renew them now.
        </Notice>
      )}
      <Group gap="xs">
        <ConfirmButton
          label="Renew the recovery codes"
          size="xs"
          title="Renew the recovery codes?"
          confirm="Renew"
          isDangerous={false}
          fields={user.has_password ? FACTORS : CODE}
          refreshes={[SESSION]}
          run={api.auth.renewRecoveryCodes}
          onDone={({ data: { recovery_codes: codes } }) =>
            showRecoveryCodes('The codes that you had before are no longer valid.', codes)
          }
        >
          You get ten new codes. Those before become invalid.
        </ConfirmButton>
        <ConfirmButton
          label="Turn it off"
          size="xs"
          title="Turn the authenticator app off?"
          fields={user.has_password ? FACTORS : CODE}
          refreshes={[SESSION]}
          run={api.auth.deleteTotp}
        >
          Your password alone is then enough to sign in as you. The recovery codes become invalid.
        </ConfirmButton>
      </Group>
    </Stack>
  )
}

/** Both factors are asked for before a change. */
const FACTORS = [...PASSWORD, ...CODE]

function Sessions() {
  const query = useData(read.auth.listSessions())
  const columns: readonly Column<SessionSummary>[] = [
    column('Browser', { width: '30%', isWrapped: true }, ({ user_agent: userAgent, is_current: isCurrent }) => (
      <>
        <bdi {...(userAgent !== null && { title: userAgent })}>{toBrowserWords(userAgent)}</bdi>
        {isCurrent && <div className="cell-note">This browser</div>}
      </>
    )),
    column('Network', {}, ({ ip_address: address }) => address ?? '–'),
    column('Last used', {}, ({ last_seen_at: at }) => <Time iso={at} />),
    column('Signed in', { phone: 'none' }, ({ created_at: at }) => <Time iso={at} />),
    column(
      'Actions',
      { width: '18%', isNumeric: true, phone: 'bare' },
      ({ id, user_agent: userAgent, is_current: isCurrent }) =>
        !isCurrent && (
          <ConfirmButton
            {...SIGN_OUT}
            label="Sign out"
            aria-label={`Sign out ${toBrowserWords(userAgent)}`}
            size="compact-sm"
            title="Sign out this browser?"
            run={() => api.auth.deleteSession(id)}
          >
            There you must sign in again before the next click. What was typed and not saved stays on the page.
          </ConfirmButton>
        ),
    ),
  ]
  return (
    <QueryView query={query}>
      {(data) => (
        <Stack gap="sm" align="stretch">
          <DataTable label="Browsers" columns={columns} rows={data} />
          {data.length > 1 && (
            <Group>
              <ConfirmButton
                {...SIGN_OUT}
                label="Sign out all other browsers"
                size="xs"
                title="Sign out all other browsers?"
                run={() => api.auth.deleteSessions()}
              >
                You stay signed in here. Everywhere else you must sign in again before the next click. What was typed
                and not saved there stays on the page.
              </ConfirmButton>
            </Group>
          )}
        </Stack>
      )}
    </QueryView>
  )
}

const SIGN_OUT = { confirm: 'Sign out', refreshes: [['auth', 'listSessions']] } as const

/** What passkeys change. */
const PASSKEYS = [SESSION, ['auth', 'listPasskeys']] as const

function Passkeys() {
  const { user, sign_on_name: signOnName } = useSession()
  const query = useData(read.auth.listPasskeys())
  const again = usePasswordAgain()
  const add = async ({ name }: { readonly name: string }) => {
    const { data } = await again(() => api.auth.createPasskeyOptions())
    const credential = await createPasskey(data.options)
    await api.auth.createPasskey({ name, credential })
  }
  return (
    <QueryView query={query}>
      {(data) => (
        <Stack gap="sm" align="flex-start">
          <Text size="sm" maw={640}>
            {user.has_password || signOnName === null
              ? 'Signs you in by fingerprint, face or PIN, in place of password and code.'
              : `Confirms that it is you by fingerprint, face or PIN. You sign in with ${signOnName}.`}
          </Text>
          {data.length > 0 && (
            <DataTable
              label="Passkeys"
              rows={data}
              columns={[
                column('Name', {}, ({ name }) => <bdi>{name}</bdi>),
                column('Last used', {}, ({ last_used_at: at }) => (at === null ? 'Never' : <Time iso={at} />)),
                column('Added', {}, ({ created_at: at }) => <Time iso={at} />),
                column('Actions', {}, ({ id, name }) => (
                  <ConfirmButton
                    label="Remove"
                    aria-label={`Remove ${name}`}
                    size="compact-sm"
                    title={`Remove ${name}?`}
                    refreshes={PASSKEYS}
                    run={() => again(() => api.auth.deletePasskey(id))}
                  >
                    It no longer signs you in. Remove it from your device as well.
                  </ConfirmButton>
                )),
              ]}
            />
          )}
          {hasPasskeys() ? (
            <ConfirmButton
              label="Add a passkey"
              size="xs"
              title="Add a passkey"
              confirm="Add"
              isDangerous={false}
              fields={[{ name: 'name', label: 'Name', hint: 'Such as the device it is on.', isRequired: true }]}
              refreshes={PASSKEYS}
              run={add}
            />
          ) : (
            <Text size="sm">This browser has passkeys only for pages with https.</Text>
          )}
        </Stack>
      )}
    </QueryView>
  )
}
