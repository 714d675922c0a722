/** @module The audit log: who changed what, when, and from where. */
import { Button, Code, Stack, Text } from '@mantine/core'
import { useNavigate, useSearch } from '@tanstack/react-router'
import type { AuditLog } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { usePage } from '../../api/data.ts'
import { SmallLink } from '../../parts/links.tsx'
import { EmptyState, Facts, QueryView } from '../../parts/page.tsx'
import { useLiveRows } from '../../parts/rows.ts'
import { type Column, CursorPages, DataTable, NewRows } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { useKnownActors } from './audit-actors.ts'
import { AuditFilterForm } from './audit-filter-form.tsx'
import { type AuditSearch, hasFilters, toAuditQuery } from './audit-filters.ts'
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
  const search = useSearch({ from: '/settings/audit' })
  const navigate = useNavigate()
  const actors = useKnownActors()
  const query = usePage(read.auditLogs.list(toAuditQuery(search)))
  const show = (next: AuditSearch) => void navigate({ to: '/settings/audit', search: next as never })
  const { cursor, ...filters } = search
  const list = useLiveRows(query, JSON.stringify(search), ({ created_at: at }) => at)
  return (
    <SettingsPage title="Audit log">
      <Text size="sm" maw={640}>
        Every change has an entry, also those by API keys and by the operator. Sent mail is in Emails instead. Entries
        are kept as long as the operator of this server has set.
      </Text>
      <AuditFilterForm key={JSON.stringify(filters)} filters={filters} actors={actors} onChange={show} />
      <QueryView query={query}>
        {({ data, pagination }) => (
          <Stack gap="xs" style={{ opacity: query.isPlaceholderData ? 0.6 : 1 }}>
            <NewRows count={list.newCount} hasMore={list.hasMoreNew} onShow={list.showNew} />
            {data.length === 0 ? (
              <Nothing isFiltered={hasFilters(search) || cursor !== undefined} onClear={() => show({})} />
            ) : (
              <DataTable
                label="Entries, newest first"
                columns={toColumns(actors)}
                rows={list.page?.data ?? data}
                toKey={({ id }) => id}
              />
            )}
            <CursorPages next={pagination.next_cursor} summary={toSummary(pagination.total)} />
          </Stack>
        )}
      </QueryView>
    </SettingsPage>
  )
}

const toSummary = (total: number): string => `${total.toLocaleString()} ${total === 1 ? 'entry' : 'entries'}`

const Nothing = ({ isFiltered, onClear }: { readonly isFiltered: boolean; onClear(): void }) =>
  isFiltered ? (
    <EmptyState title="No entry matches these filters">
      <Text>With filters, the newest 200,000 entries are searched. Days reach older ones.</Text>
      <Button variant="default" onClick={onClear}>
        Remove the filters
      </Button>
    </EmptyState>
  ) : (
    <EmptyState title="Changes will appear here" />
  )

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
        <SmallLink to="/settings/audit" search={{ action }} underline="always" title={`Only ${action}`}>
          {toActionWords(action)}
        </SmallLink>
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
                <SmallLink key="id" to="/settings/audit" search={{ resource_id: id }}>
                  {id}
                </SmallLink>
              ),
            ],
            [
              'Actor',
              <SmallLink key="actor" to="/settings/audit" search={{ actor_id: actorId }}>
                {actorId}
              </SmallLink>,
            ],
            ...listDetails(metadata),
          ]}
        />
      </details>
    </Stack>
  )
}
