/** @module One received message: who sent it and whether that is proven, its content, its route and deliveries. */
import { Code, Stack, Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import type { InboundEmail } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData, usePage } from '../api/data.ts'
import { useLiveEvents } from '../api/live.tsx'
import { CopyText } from '../parts/copy.tsx'
import { DeleteButton } from '../parts/dialog.tsx'
import { formatBytes, toTitle } from '../parts/format.ts'
import { InlineLink, TextLink } from '../parts/links.tsx'
import { LongText } from '../parts/long-text.tsx'
import { MessageContent } from '../parts/message-content.tsx'
import { Notice } from '../parts/notice.tsx'
import { Facts, QueryView, RecordPage, Section, useBack } from '../parts/page.tsx'
import { Time } from '../parts/time.tsx'
import { useAllDomains } from './domains/queries.ts'
import { INBOUND_TABS } from './filters.ts'
import { Attachments } from './inbound/attachments.tsx'
import { Checks } from './inbound/checks.tsx'
import { Deliveries } from './inbound/deliveries.tsx'
import { formatRoute, SPAM_STATES } from './inbound/format.ts'
import { EmailStatus } from './inbound/marks.tsx'
import { toProof } from './inbound/proof.ts'
import { useAllRoutes } from './inbound/queries.ts'
import { ReplyButton } from './inbound/reply.tsx'
import { Source } from './inbound/source.tsx'
import { findClaimedAddress, toVisible } from './inbound/visible.ts'

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
        [
          'Domain',
          domain && (
            <TextLink to="/domains/$id" params={{ id: domain.id }}>
              {domain.domain}
            </TextLink>
          ),
        ],
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
