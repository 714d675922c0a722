/** @module The audit log: who changed what, when, and from where. */
import { Code, Stack, Text } from '@mantine/core'
import type { AuditLog } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { TextLink } from '../../parts/links.tsx'
import { ListScreen, useList } from '../../parts/list.tsx'
import { EmptyState, Facts } from '../../parts/page.tsx'
import type { Column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { AUDIT_FILTERS } from '../filters.ts'
import { useKnownActors } from './audit-actors.ts'
import {
  findResourceName,
  type KnownActors,
  listDetails,
  toActionWords,
  toActorWords,
  toResourceWord,
} from './audit-format.ts'
import { SettingsPage } from './frame.tsx'

export default function AuditScreen() {
  const actors = useKnownActors()
  const list = useList({ read: read.auditLogs.list, filters: AUDIT_FILTERS, isSteady: true })
  return (
    <ListScreen
      frame={SettingsPage}
      title="Audit log"
      list={list}
      label="Entries, newest first"
      columns={toColumns(actors)}
      noun="change"
      choices={{
        actor_id: new Map([...actors.users, ...[...actors.keys].map(([id, name]) => [id, `API key ${name}`] as const)]),
      }}
      above={
        <Text size="sm" maw={640}>
          Every change has an entry, also those by API keys and by the operator. Sent mail is in Emails instead. Entries
          are kept as long as the operator of this server has set.
        </Text>
      }
      empty={<EmptyState title="Changes will appear here" />}
      advice="With filters, the newest 200,000 entries are searched. Days reach older ones."
    />
  )
}

const toColumns = (actors: KnownActors): readonly Column<AuditLog>[] => [
  { header: 'What', cell: (entry) => <What entry={entry} actors={actors} /> },
  { header: 'Who', width: '28%', cell: (entry) => <bdi>{toActorWords(entry, actors)}</bdi> },
  { header: 'When', width: '17%', cell: ({ created_at: at }) => <Time iso={at} /> },
  { header: 'From where', width: '17%', cell: ({ ip_address: address }) => address ?? '–' },
]

function What({ entry, actors }: { readonly entry: AuditLog; readonly actors: KnownActors }) {
  const { action, resource_type: type, resource_id: id, actor_id: actorId, metadata } = entry
  const name = findResourceName(entry, actors)
  return (
    <Stack gap={2}>
      <Text size="sm">
        <TextLink to="/settings/audit" search={{ action }} underline="always" title={`Only ${action}`}>
          {toActionWords(action)}
        </TextLink>
        {name !== undefined && (
          <>
            : <bdi>{name}</bdi>
          </>
        )}
      </Text>
      <details>
        <summary>
          <Text span size="sm">
            Details
          </Text>
        </summary>
        <Facts
          facts={[
            ['Action', <Code key="action">{action}</Code>],
            [
              type === null ? 'Thing' : toResourceWord(type),
              id !== null && (
                <TextLink key="id" to="/settings/audit" search={{ resource_id: id }}>
                  {id}
                </TextLink>
              ),
            ],
            [
              'Actor',
              <TextLink key="actor" to="/settings/audit" search={{ actor_id: actorId }}>
                {actorId}
              </TextLink>,
            ],
            ...listDetails(metadata),
          ]}
        />
      </details>
    </Stack>
  )
}
