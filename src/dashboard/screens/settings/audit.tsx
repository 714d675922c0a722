/** @module The audit log: who changed what, the difference, when, and from where. */
import { Code } from '@mantine/core'
import type { AuditLog } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { TextLink } from '../../parts/links.tsx'
import { ListScreen, useList } from '../../parts/list.tsx'
import { EmptyState, Facts } from '../../parts/page.tsx'
import { type Column, column } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import { AUDIT_FILTERS } from '../filters.ts'
import { useKnownActors } from '../queries.ts'
import {
  findResourceScreen,
  listChanges,
  listDetails,
  toActionWords,
  toActorWords,
  toResourceWord,
} from './audit-format.ts'
import { SettingsPage } from './frame.tsx'

const COLUMNS: readonly Column<AuditLog>[] = [
  column('Action', { width: '30%', isWrapped: true }, (entry) => <Action entry={entry} />),
  column(
    'Object',
    { phone: 'bare', isWrapped: true },
    (entry) => (entry.resource_name || entry.changes.length > 0) && <Thing entry={entry} />,
  ),
  column('Who', { width: '22%' }, (entry) => <Who entry={entry} />),
  column('Time', { width: '8rem', phone: 'aside' }, ({ created_at: at }) => <Time iso={at} />),
]

export default function AuditScreen() {
  const { users, keys } = useKnownActors()
  const list = useList({ read: read.auditLogs.list, filters: AUDIT_FILTERS, isSteady: true })
  return (
    <ListScreen
      frame={SettingsPage}
      title="Audit log"
      list={list}
      columns={COLUMNS}
      noun="change"
      choices={{ actor_id: new Map([...users, ...[...keys].map(([id, name]) => [id, `API key ${name}`] as const)]) }}
      empty={<EmptyState title="No change yet" text="Each change of this account appears here, by whoever made it." />}
      advice="With filters, the newest 200,000 entries are searched. Days reach older ones."
    />
  )
}

interface EntryProps {
  readonly entry: AuditLog
}

const Who = ({ entry }: EntryProps) => {
  const words = toActorWords(entry)
  return <bdi title={words}>{words}</bdi>
}

/** What was changed, and how. */
function Thing({ entry }: EntryProps) {
  const { resource_name: name } = entry
  const screen = findResourceScreen(entry)
  return (
    <>
      {name && (screen ? <TextLink {...screen}>{name}</TextLink> : <bdi>{name}</bdi>)}
      {listChanges(entry).map((change) => (
        <div key={change} className="audit-change" title={change}>
          <bdi>{change}</bdi>
        </div>
      ))}
    </>
  )
}

/** What was done; opened, the rest of the entry. */
function Action({ entry }: EntryProps) {
  const { action, resource_type: type, resource_id: id, actor_id: actorId, ip_address: address, metadata } = entry
  return (
    <details className="audit-action">
      <summary>{toActionWords(action)}</summary>
      <Facts
        facts={[
          ['Action', <TextLink key="action" to="/settings/audit" search={{ action }} name={action} />],
          [
            type === null ? 'Object' : toResourceWord(type),
            id !== null && <TextLink key="id" to="/settings/audit" search={{ resource_id: id }} name={id} />,
          ],
          ['Actor', <TextLink key="actor" to="/settings/audit" search={{ actor_id: actorId }} name={actorId} />],
          ['Address', address && <Code key="address">{address}</Code>],
          ...listDetails(metadata),
        ]}
      />
    </details>
  )
}
