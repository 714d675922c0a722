/** @module The audit log: who changed what, when, and from where. */
import { Button, Code, Group, NativeSelect, SimpleGrid, Stack, Text, TextInput } from '@mantine/core'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { useId, useState } from 'react'
import type { AuditLog } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { usePage } from '../../api/data.ts'
import { bindText, Form } from '../../parts/form.tsx'
import { SEARCH_MARK } from '../../parts/keyboard.tsx'
import { SmallLink } from '../../parts/links.tsx'
import { EmptyState, Facts, QueryView } from '../../parts/page.tsx'
import { useLiveRows } from '../../parts/rows.ts'
import type { Search } from '../../parts/search.ts'
import { type Column, CursorPages, DataTable, NewRows } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { useKnownActors } from './audit-actors.ts'
import {
  ACTOR_TYPES,
  type AuditFilters,
  type AuditSearch,
  hasFilters,
  parseAuditSearch,
  toAuditQuery,
} from './audit-filters.ts'
import {
  findResourceName,
  KNOWN_ACTIONS,
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

interface AuditFilterFormProps {
  readonly filters: AuditFilters
  readonly actors: KnownActors
  onChange(filters: AuditFilters): void
}

const TYPE_PREFIX = 'type '
const ID_PREFIX = 'id '

/** One field for both filters of the actor. */
const toActorChoice = ({ actor_id: id, actor_type: type }: AuditFilters): string =>
  id !== undefined ? ID_PREFIX + id : type !== undefined ? TYPE_PREFIX + type : ''

function toActorFilter(choice: string): Search {
  if (choice.startsWith(ID_PREFIX)) return { actor_id: choice.slice(ID_PREFIX.length) }
  return choice.startsWith(TYPE_PREFIX) ? { actor_type: choice.slice(TYPE_PREFIX.length) } : {}
}

function listActorOptions({ users, keys }: KnownActors, chosenId: string | undefined) {
  const isKnown = chosenId === undefined || users.has(chosenId) || keys.has(chosenId)
  return [
    { value: '', label: 'Anybody' },
    ...Object.entries(ACTOR_TYPES).map(([type, label]) => ({ value: TYPE_PREFIX + type, label })),
    ...[...users].map(([id, email]) => ({ value: ID_PREFIX + id, label: email })),
    ...[...keys].map(([id, name]) => ({ value: ID_PREFIX + id, label: `API key ${name}` })),
    ...(isKnown ? [] : [{ value: ID_PREFIX + chosenId, label: chosenId }]),
  ]
}

function AuditFilterForm({ filters, actors, onChange }: AuditFilterFormProps) {
  const [values, setValues] = useState(filters)
  const [actor, setActor] = useState(() => toActorChoice(filters))
  const actionsId = useId()
  const submit = () => {
    const { actor_id: _id, actor_type: _type, ...others } = values
    onChange(parseAuditSearch({ ...others, ...toActorFilter(actor) }))
  }
  const field = (name: keyof AuditFilters) => ({
    ...bindText(values[name] ?? '', (value) => setValues((before) => ({ ...before, [name]: value }))),
    autoComplete: 'off',
  })
  return (
    <Form onSubmit={submit} aria-label="Filters" gap="xs">
      <SimpleGrid cols={{ base: 1, xs: 2, md: 3 }} spacing="xs">
        <TextInput
          {...field('action')}
          {...SEARCH_MARK}
          label="Action"
          placeholder="domain.created"
          list={actionsId}
          autoCapitalize="none"
          spellCheck={false}
        />
        <NativeSelect label="Who" {...bindText(actor, setActor)} data={listActorOptions(actors, filters.actor_id)} />
        <TextInput {...field('resource_type')} label="Type of thing" placeholder="domain" spellCheck={false} />
        <TextInput {...field('resource_id')} label="Id of the thing" spellCheck={false} />
        <TextInput {...field('from_date')} label="From day" type="date" />
        <TextInput {...field('to_date')} label="To day" type="date" />
      </SimpleGrid>
      <datalist id={actionsId}>
        {KNOWN_ACTIONS.map((action) => (
          <option key={action} value={action} />
        ))}
      </datalist>
      <Group gap="xs">
        <Button type="submit">Filter</Button>
        {hasFilters(filters) && (
          <Button variant="default" onClick={() => onChange({})}>
            Remove all filters
          </Button>
        )}
      </Group>
    </Form>
  )
}
