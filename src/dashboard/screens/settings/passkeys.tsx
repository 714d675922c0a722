/** @module The passkeys of the signed-in user. */
import { Stack, Text } from '@mantine/core'
import { api, read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { SESSION, useSession } from '../../api/session.tsx'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { QueryView } from '../../parts/page.tsx'
import { createPasskey, hasPasskeys } from '../../parts/passkey.ts'
import { usePasswordAgain } from '../../parts/password-again.tsx'
import { DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'

const REFRESHES = [SESSION, ['auth', 'listPasskeys']] as const

export function Passkeys() {
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
                { header: 'Name', cell: ({ name }) => <bdi>{name}</bdi> },
                { header: 'Last used', cell: ({ last_used_at: at }) => (at === null ? 'Never' : <Time iso={at} />) },
                { header: 'Added', cell: ({ created_at: at }) => <Time iso={at} /> },
                {
                  header: 'Actions',
                  cell: ({ id, name }) => (
                    <ConfirmButton
                      label="Remove"
                      aria-label={`Remove ${name}`}
                      size="compact-sm"
                      title={`Remove ${name}?`}
                      refreshes={REFRESHES}
                      run={() => again(() => api.auth.deletePasskey(id))}
                    >
                      It no longer signs you in. Remove it from your device as well.
                    </ConfirmButton>
                  ),
                },
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
              refreshes={REFRESHES}
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
