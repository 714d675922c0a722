/** @module The list of requests to the account: what arrived, what was refused and why. */
import type { Log } from '#client/api.ts'
import { read } from '../api/client.ts'
import { toSendCommand } from '../parts/commands.ts'
import { NameLink } from '../parts/links.tsx'
import { ListScreen, useList } from '../parts/list.tsx'
import { EmptyState } from '../parts/page.tsx'
import type { Column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import { LOG_FILTERS } from './filters.ts'
import { Caller, RequestLine, RequestStatus } from './logs/marks.tsx'
import { toLogQuery } from './logs/words.ts'
import { useKnownActors } from './settings/audit-actors.ts'

const COLUMNS: readonly Column<Log>[] = [
  {
    header: 'Request',
    width: '26%',
    cell: (log) => <NameLink to="/logs/$id" params={{ id: log.id }} name={<RequestLine log={log} />} />,
  },
  { header: 'Status', width: '6rem', phone: 'aside', cell: (log) => <RequestStatus log={log} /> },
  {
    header: 'Error',
    phone: 'bare',
    cell: ({ error_message: message }) => message !== null && <bdi title={message}>{message}</bdi>,
  },
  { header: 'Key or user', width: '16%', phone: 'bare', cell: (log) => <Caller log={log} /> },
  {
    header: 'Time',
    width: '10rem',
    phone: 'aside',
    cell: ({ created_at: at }) => <Time iso={at} hasSeconds />,
  },
]

export default function LogsScreen() {
  const { users, keys } = useKnownActors()
  const list = useList({
    read: (query) => read.logs.list(toLogQuery(query)),
    filters: LOG_FILTERS,
    isSteady: true,
    refetchInterval: 10_000,
  })
  return (
    <ListScreen
      title="Logs"
      description="Did a request arrive, and what was wrong with it?"
      list={list}
      columns={COLUMNS}
      isWide
      noun="request"
      choices={{ actor_id: new Map([...keys, ...users]) }}
      empty={
        <EmptyState
          title="No request yet"
          text="Each request by an API key appears here within a second, also one that is refused. Try it:"
          command={toSendCommand()}
        />
      }
      advice="Requests with an unknown API key, and what people only read in the dashboard, are not logged. Old requests are deleted."
    />
  )
}
