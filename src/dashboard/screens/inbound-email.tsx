/** @module One received message: who sent it, whether that is proven, its content, route and deliveries; a reply. */
import { Anchor, Code, Stack, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import type { InboundEmail } from '#client/api.ts'
import { newIdempotencyKey, TassisError } from '#client/client.ts'
import { api, type Read, read } from '../api/client.ts'
import { useData, usePage } from '../api/data.ts'
import { useLiveEvents } from '../api/live.tsx'
import { CopyText } from '../parts/copy.tsx'
import { ConfirmDialog, DeleteButton, DialogButton } from '../parts/dialog.tsx'
import { formatBytes, toTitle } from '../parts/format.ts'
import { InlineLink, TextLink } from '../parts/links.tsx'
import { LongText } from '../parts/long-text.tsx'
import { MessageContent } from '../parts/message-content.tsx'
import { Facts, QueryView, RecordPage, Section, useBack } from '../parts/page.tsx'
import { Notice } from '../parts/status.tsx'
import { Time } from '../parts/time.tsx'
import { INBOUND_TABS } from './filters.ts'
import { formatRoute, SPAM_STATES } from './inbound/format.ts'
import { Attachments, Checks, Deliveries, EmailStatus } from './inbound/marks.tsx'
import { findClaimedAddress, toProof, toVisible } from './inbound/proof.ts'
import { useAllDomains, useAllRoutes } from './queries.ts'

const DELIVERY_REFRESH_MS = 5000

const route = getRouteApi('/inbound/$id')

export default function InboundEmailScreen() {
  const { id } = route.useParams()
  const query = useData(read.inboundEmails.get(id))
  const back = useBack({ to: '/inbound' })
  return (
    <RecordPage
      title={query.data ? toTitle(query.data.subject) : 'Received mail'}
      list={{ to: '/inbound' }}
      listName="All received mail"
      query={query}
      status={query.data && <EmailStatus email={query.data} />}
      description={query.data && <Origin email={query.data} />}
      action={query.data && <Actions email={query.data} onDeleted={back} />}
      onEscape={back}
    >
      {(email) => <EmailView key={email.id} email={email} />}
    </RecordPage>
  )
}

interface EmailProps {
  readonly email: InboundEmail
}

/** Who wrote to whom, and when. */
const Origin = ({ email: { from_header: header, from_address: from, rcpt_to: to, created_at: at } }: EmailProps) => (
  <>
    From <bdi>{toVisible(header || from) || 'nobody'}</bdi> to <bdi>{to.map(toVisible).join(', ')}</bdi> ·{' '}
    <Time iso={at} isRelative />
  </>
)

function EmailView({ email }: EmailProps) {
  const checked = { authentication: email.authentication, from: email.from_address }
  const { tone, sentence } = toProof(checked)
  const claimed = findClaimedAddress(email.from_header, email.from_address)
  return (
    <Stack gap="lg">
      {(tone === 'bad' || tone === 'warning') && (
        <Notice tone={tone} title="This may not be who it says.">
          <span data-sentence="">{sentence}</span>
        </Notice>
      )}
      {claimed !== undefined && (
        <Notice tone="warning" title={`Its name shows another address: ${claimed}.`}>
          It is not from that address.
        </Notice>
      )}
      {email.status === 'failed' && (
        <Notice tone="bad" title="It could not be parsed.">
          <bdi>{email.error_message ?? 'The reason was not recorded.'}</bdi> Only its headers and its source are
          complete. The operator can parse it again: <Code>tassis inbound retry</Code>
        </Notice>
      )}
      <MessageContent
        tabs={INBOUND_TABS}
        html={email.html_body}
        text={email.text_body}
        frame={`/app/inbound/${email.id}/html`}
        isMissing={email.content === 'missing'}
        panels={{
          headers: () => <Headers headers={email.raw_headers} />,
          source: () => <Source raw={read.inboundEmails.getRaw(email.id)} />,
        }}
      />
      {email.attachments.length > 0 && (
        <Section title="Attachments">
          <Attachments
            attachments={email.attachments}
            toUrl={(index) => read.inboundEmails.getAttachment(email.id, String(index)).url}
          />
        </Section>
      )}
      <Section title="Route and deliveries">
        <RouteAndDeliveries email={email} />
      </Section>
      <Section title="Details">
        <EmailFacts email={email} />
      </Section>
      <details>
        <summary>Checks of the sender</summary>
        {tone !== 'bad' && tone !== 'warning' && <p data-sentence="">{sentence}</p>}
        <Checks message={checked} />
      </details>
    </Stack>
  )
}

interface ActionsProps extends EmailProps {
  onDeleted(): void
}

const Actions = ({ email, onDeleted }: ActionsProps) => (
  <>
    <DeleteButton
      noun="message"
      remove={() => api.inboundEmails.delete(email.id)}
      refreshes={[['inboundEmails', 'list']]}
      onDeleted={onDeleted}
    >
      Its attachments and waiting deliveries are deleted too. This cannot be undone.
    </DeleteButton>
    <ReplyButton email={email} />
  </>
)

const formatForwarded = ({ address, status, reason }: InboundEmail['forwarded'][number]) =>
  toVisible(`to ${address}: ${status}${reason === null ? '' : ` (${reason})`}`)

function EmailFacts({ email }: EmailProps) {
  const { data: domains = [] } = useAllDomains()
  const domain = domains.find(({ id }) => id === email.domain_id)
  const { spam } = email
  const list = spam?.symbols.map(({ name, score }) => `${toVisible(name)} ${score}`).join(', ')
  return (
    <Facts
      facts={[
        ['From', email.from_header && toVisible(email.from_header)],
        ['To', email.to_header && toVisible(email.to_header)],
        ['Cc', email.cc_header && toVisible(email.cc_header)],
        ['Received', <Time key="received" iso={email.created_at} isRelative />],
        ['Envelope', `from ${toVisible(email.mail_from) || '(nobody)'} to ${email.rcpt_to.map(toVisible).join(', ')}`],
        ['Forwarded', email.forwarded.map(formatForwarded).join('; ')],
        ['Sent by server', email.source_ip],
        ['Domain', domain && <TextLink to="/domains/$id" params={{ id: domain.id }} name={domain.domain} />],
        ['Spam', spam && `${SPAM_STATES[spam.verdict]?.word}: ${spam.score} of ${spam.required} (${list})`],
        ['Size', formatBytes(email.size_bytes)],
        ['Message-ID', email.message_id && toVisible(email.message_id)],
        ['Id', <CopyText key="id" value={email.id} what="id" />],
      ]}
    />
  )
}

function Headers({ headers }: { readonly headers: InboundEmail['raw_headers'] }) {
  if (headers === null) return <Text>The headers are not stored.</Text>
  const lines = Object.entries(headers).flatMap(([name, value]) =>
    [value].flat().map((text) => `${toVisible(name)}: ${unfold(String(text))}`),
  )
  return <LongText label="Headers of the message" text={lines.join('\n')} />
}

/** One header field is one line, so that no value can look like another field. */
const unfold = (value: string): string => toVisible(value.replace(/\r?\n[\t ]+/g, ' ').replaceAll('\t', ' '))

function RouteAndDeliveries({ email }: EmailProps) {
  const { data: routes } = useAllRoutes()
  const { data: domains = [] } = useAllDomains()
  const query = usePage(read.inboundEmails.listDeliveries(email.id, { per_page: 100 }), {
    // An attempt has no event.
    refetchInterval: ({ state: { data } }) =>
      data?.data.some(({ status }) => status === 'pending') ? DELIVERY_REFRESH_MS : false,
  })
  useLiveEvents(({ event_type: type }) => {
    if (type === 'email.inbound') void query.refetch()
  })
  const matched = routes?.find(({ id }) => id === email.route_id)
  const name = domains.find(({ id }) => id === matched?.domain_id)?.domain
  if (email.route_id === null)
    return email.status === 'no_route' ? (
      <Text>
        No route matches its address. It is stored until 1,000 newer ones have come.{' '}
        <InlineLink to="/inbound/routes/new">Create a route</InlineLink>
      </Text>
    ) : (
      <Text>No route matched, or it was deleted since.</Text>
    )
  return (
    <>
      <Text>
        Route:{' '}
        <InlineLink to="/inbound/routes/$id" params={{ id: email.route_id }}>
          <bdi>{matched ? formatRoute(matched, name) : email.route_id}</bdi>
        </InlineLink>
        {matched && (matched.webhook_url ? ` · posts to ${toVisible(matched.webhook_url)}` : ' · stores it')}
      </Text>
      <QueryView query={query}>
        {({ data }) =>
          data.length > 0 ? (
            <Deliveries deliveries={data} hasEmails={false} />
          ) : (
            matched?.webhook_url && <Text>No delivery was tried yet.</Text>
          )
        }
      </QueryView>
      <Text size="xs" c="dimmed">
        <InlineLink to="/webhooks">Webhooks</InlineLink> that subscribe to email.inbound get it too.
      </Text>
    </>
  )
}

/** A message may have 40 MiB. */
const MAX_SHOWN_BYTES = 256 * 1024

interface SourceProps {
  readonly raw: Read<Promise<Response>>
}

function Source({ raw }: SourceProps) {
  const query = useQuery({ queryKey: raw.queryKey, queryFn: ({ signal }) => readStart(raw, signal), staleTime: 60_000 })
  return (
    <QueryView query={query}>
      {(start) =>
        start === null ? (
          <Text>The source is not stored any more; TASSIS_INBOUND_RAW_DAYS says for how many days it is.</Text>
        ) : (
          <Stack gap="xs">
            <LongText label="Source of the message" text={start.text} />
            <Text size="sm">
              {start.isCut && `The first ${formatBytes(MAX_SHOWN_BYTES)} are shown. `}
              <Anchor href={raw.url} download size="sm" underline="always">
                Download the message
              </Anchor>
            </Text>
          </Stack>
        )
      }
    </QueryView>
  )
}

/** Reads no more than is shown. Null: it is not stored. */
async function readStart(
  raw: SourceProps['raw'],
  signal: AbortSignal,
): Promise<{ readonly text: string; readonly isCut: boolean } | null> {
  const response = await raw.call(signal).catch((error: unknown) => {
    if (error instanceof TassisError && (error.status === 404 || error.status === 410)) return null
    throw error
  })
  if (response === null) return null
  const reader = response.body?.getReader()
  const decoder = new TextDecoder()
  let text = ''
  let length = 0
  while (reader && length < MAX_SHOWN_BYTES) {
    const { done, value } = await reader.read()
    if (done) return { text: text + decoder.decode(), isCut: false }
    text += decoder.decode(value.subarray(0, MAX_SHOWN_BYTES - length), { stream: true })
    length += value.length
  }
  await reader?.cancel()
  return { text, isCut: true }
}

const MAX_SUBJECT_LENGTH = 900
const MAX_QUOTED_LENGTH = 10_000

/** Answers by email, as a reply in its conversation. */
const ReplyButton = ({ email }: EmailProps) => (
  <DialogButton
    label="Reply"
    needs="developer"
    reason={findObstacle(email)}
    // To a sender that is not proven it is not what to do first.
    variant={
      ['good', 'neutral'].includes(toProof({ authentication: email.authentication, from: email.from_address }).tone)
        ? 'filled'
        : 'default'
    }
  >
    {(close) => <ReplyDialog email={email} onClose={close} />}
  </DialogButton>
)

const findObstacle = ({ from_address: from, rcpt_to: to }: InboundEmail): string | undefined => {
  if (from === '') return 'It names no sender.'
  return to.length === 0 ? 'It names no recipient to answer from.' : undefined
}

function ReplyDialog({ email, onClose }: EmailProps & { onClose(): void }) {
  // One key for all tries: without a response it is unknown whether the reply was accepted.
  const [idempotencyKey] = useState(newIdempotencyKey)
  return (
    <ConfirmDialog
      title="Reply"
      confirm="Send"
      closeOnClickOutside={false}
      fields={[
        { name: 'from', label: 'From', kind: 'choice', options: [...email.rcpt_to] },
        { name: 'subject', label: 'Subject', isRequired: true },
        { name: 'text_body', label: 'Text', kind: 'lines', rows: [8, 20], isRequired: true },
      ]}
      initial={{ from: email.rcpt_to[0], subject: toSubject(email.subject), text_body: quote(email) }}
      run={(body: Pick<Parameters<typeof api.emails.send>[0], 'from' | 'subject' | 'text_body'>) =>
        api.emails.send(
          {
            ...body,
            to: email.from_address,
            ...(email.message_id && { headers: { 'In-Reply-To': email.message_id, References: email.message_id } }),
          },
          { idempotencyKey },
        )
      }
      done={({ data: { id } }) => (
        <>
          The reply is on its way. <InlineLink to="/emails/$id" params={{ id }} name="Show it" />
        </>
      )}
      onClose={onClose}
    >
      <Text>
        To <bdi>{toVisible(email.from_address)}</bdi>
      </Text>
    </ConfirmDialog>
  )
}

const toSubject = (subject: string): string =>
  /^re:/i.test(subject) ? subject : `Re: ${subject}`.slice(0, MAX_SUBJECT_LENGTH)

const quote = ({ text_body: text, from_header: header, from_address: from }: InboundEmail): string =>
  text
    ? `\n\n${toVisible(header || from)} wrote:\n${text.slice(0, MAX_QUOTED_LENGTH).trimEnd().replace(/^/gm, '> ')}`
    : ''
