/** @module One request: what was wrong with it, what it had, and the email that it created. */
import { Code } from '@mantine/core'
import { useParams } from '@tanstack/react-router'
import type { Log } from '#client/api.ts'
import { read } from '../api/client.ts'
import { useData } from '../api/data.ts'
import { CopyText } from '../parts/copy.tsx'
import { formatDuration } from '../parts/format.ts'
import { ButtonLink, TextLink } from '../parts/links.tsx'
import { LongText } from '../parts/long-text.tsx'
import { Notice } from '../parts/notice.tsx'
import { Facts, RecordPage, Section } from '../parts/page.tsx'
import { Time } from '../parts/time.tsx'
import { Caller, RequestStatus } from './logs/marks.tsx'
import { INTERFACES, toRequestTitle, toStatusTone } from './logs/words.ts'

export default function LogScreen() {
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
              <TextLink key="key" to="/keys/$id" params={{ id: actorId }}>
                <Caller log={log} />
              </TextLink>
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
    <ButtonLink to="/emails/$id" params={{ id: email }} size="xs" variant="default">
      See the email
    </ButtonLink>
  )
  if (tone === 'good') return open && <Notice tone="good" title="It created an email" action={open} />
  const others = code !== null && (
    <ButtonLink to="/logs" search={{ q: code }} size="xs" variant="default">
      Same errors
    </ButtonLink>
  )
  return (
    <Notice tone={tone} title={message ?? `It was refused with ${status}.`} action={open || others}>
      {status < 500 && method !== 'GET' && 'Nothing was changed or sent.'}
    </Notice>
  )
}
