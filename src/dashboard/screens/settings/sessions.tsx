/** @module Browsers in which the user is signed in. */
import { Group, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import type { SessionSummary } from '#client/operator-api.ts'
import { api, read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { ActionButton, ConfirmDialog, SmallAction } from '../../parts/form.tsx'
import { QueryView } from '../../parts/page.tsx'
import { StatusLabel } from '../../parts/status.tsx'
import { type Column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { toBrowserWords } from './format.ts'

/** What is ended: one session, or all but that of this page. */
type Ending = SessionSummary | 'others'

export function Sessions() {
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
