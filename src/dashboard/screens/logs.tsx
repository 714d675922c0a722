/** @module The requests to the account: what arrived, what was refused and why; and one of them. */
import { Code, Text } from '@mantine/core'
import { useParams } from '@tanstack/react-router'
import type { Log } from '#client/api.ts'
import { read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { toSendCommand } from '../parts/commands.ts'
import { CopyText } from '../parts/copy.tsx'
import { formatDuration } from '../parts/format.ts'
import { ButtonLink, NameLink, TextLink } from '../parts/links.tsx'
import { ListScreen, useList } from '../parts/list.tsx'
import { LongText } from '../parts/long-text.tsx'
import { EmptyState, Facts, RecordPage, Section } from '../parts/page.tsx'
import { Notice, StatusLabel } from '../parts/status.tsx'
import { type Column, column } from '../parts/table.tsx'
import { Time } from '../parts/time.tsx'
import type { Tone } from '../parts/tone.ts'
import { INTERFACES, LOG_FILTERS } from './filters.ts'
import { useKnownActors } from './queries.ts'

const COLUMNS: readonly Column<Log>[] = [
  column('Request', { width: '26%' }, (log) => (
    <NameLink to="/logs/$id" params={{ id: log.id }} name={<RequestLine log={log} />} />
  )),
  column('Status', { width: '6rem', phone: 'aside' }, (log) => <RequestStatus log={log} />),
  column(
    'Error',
    { phone: 'bare' },
    ({ error_message: message }) => message !== null && <bdi title={message}>{message}</bdi>,
  ),
  column('Key or user', { width: '16%', phone: 'bare' }, (log) => <Caller log={log} />),
  column('Time', { width: '10rem', phone: 'aside' }, ({ created_at: at }) => <Time iso={at} hasSeconds />),
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

export function LogScreen() {
  const { id } = useParams({ from: '/logs/$id' })
  const query = useData(read.logs.get(id))
  const log = query.data
  return (
    <RecordPage
      title={log ? toRequestTitle(log) : 'Request'}
      list={{ to: '/logs' }}
      listName="Logs"
      query={query}
      {...(log && { status: <RequestStatus log={log} /> })}
    >
      {(found) => <Request log={found} />}
    </RecordPage>
  )
}

function Request({ log }: { readonly log: Log }) {
  const { kind, error_code: code, actor_id: actorId, actor_type: type, request_id: requestId } = log
  return (
    <>
      <Outcome log={log} />
      <Facts
        facts={[
          ['Time', <Time key="time" iso={log.created_at} hasSeconds isRelative />],
          ['Error', code && <Code key="code">{code}</Code>],
          [
            type === 'api_key' ? 'API key' : 'User',
            type === 'api_key' ? (
              <TextLink key="key" to="/keys/$id" params={{ id: actorId }} name={<Caller log={log} />} />
            ) : (
              <Caller key="user" log={log} />
            ),
          ],
          ['Interface', kind !== 'api' && INTERFACES[kind]],
          ['Duration', formatDuration(log.duration_ms)],
          ['Address', log.ip_address],
          [kind === 'smtp' ? 'Name in EHLO' : 'User agent', log.user_agent],
          ['Request id', requestId && <CopyText key="id" value={requestId} what="request id" />],
        ]}
      />
      {log.body !== null && (
        <Section
          title="Request"
          description="Only what shows its form: contents, secrets and data of templates are replaced by their length."
        >
          <LongText label="Body of the request" text={JSON.stringify(log.body, null, 2)} />
        </Section>
      )}
    </>
  )
}

/** What was wrong, or what the request did. */
function Outcome({ log }: { readonly log: Log }) {
  const { email_id: email, error_message: message, error_code: code, status, method } = log
  const tone = toStatusTone(status)
  const open = email !== null && (
    <ButtonLink to="/emails/$id" params={{ id: email }} size="xs" variant="default" name="See the email" />
  )
  if (tone === 'good') return open && <Notice tone="good" title="It created an email" action={open} />
  const others = code !== null && (
    <ButtonLink to="/logs" search={{ q: code }} size="xs" variant="default" name="Same errors" />
  )
  return (
    <Notice tone={tone} title={message ?? `It was refused with ${status}.`} action={open || others}>
      {status < 500 && method !== 'GET' && 'Nothing was changed or sent.'}
    </Notice>
  )
}

interface LogProps {
  readonly log: Log
}

/** `POST /v1/emails`; with its interface if that is not the API. */
const RequestLine = ({ log: { kind, method, path } }: LogProps) => (
  <span title={path ?? method}>
    <Text span inherit c="dimmed">
      {kind === 'api' ? method : `${INTERFACES[kind]} ${method}`}
    </Text>{' '}
    <bdi>{path}</bdi>
  </span>
)

const RequestStatus = ({ log: { status } }: LogProps) => <StatusLabel tone={toStatusTone(status)}>{status}</StatusLabel>

const Caller = ({ log: { actor_name: name, actor_type: type } }: LogProps) => (
  <bdi>{name ?? (type === 'api_key' ? 'A deleted key' : 'A former user')}</bdi>
)

const toRequestTitle = ({ kind, method, path }: Pick<Log, 'kind' | 'method' | 'path'>): string =>
  path === null ? `${INTERFACES[kind]} ${method}` : `${method} ${path}`

/** A reply of SMTP has the same classes: 4xx means "later". */
const toStatusTone = (status: number): Tone => (status < 400 ? 'good' : status < 500 ? 'warning' : 'bad')

/** As errors have it, such as `01a2276c-d2ab-76c9-8be2-cb88cbaecda3`. */
const REQUEST_ID = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i

/** An id of a request that is typed into the search finds that request. */
const toLogQuery = (query: { readonly q?: string | undefined }): object =>
  query.q !== undefined && REQUEST_ID.test(query.q.trim())
    ? { ...query, q: undefined, request_id: query.q.trim() }
    : query
