/** @module One received message: who sent it and whether that is proven, its content, its route and deliveries. */
import { Group, Paper, Stack, Text } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import type { InboundEmail } from '#client/api.ts'
import { api, read } from '../api/client.ts'
import { useData, usePage } from '../api/data.ts'
import { useLiveEvents } from '../api/live.tsx'
import { DeleteButton } from '../parts/dialog.tsx'
import { formatBytes, toTitle } from '../parts/format.ts'
import { InlineLink, TextLink } from '../parts/links.tsx'
import { LongText } from '../parts/long-text.tsx'
import { MessageContent } from '../parts/message-content.tsx'
import { Facts, QueryView, RecordPage, Section, useBack } from '../parts/page.tsx'
import { StatusLabel } from '../parts/status.tsx'
import { Time } from '../parts/time.tsx'
import { useAllDomains } from './domains/queries.ts'
import { INBOUND_TABS } from './filters.ts'
import { Attachments } from './inbound/attachments.tsx'
import { Checks } from './inbound/checks.tsx'
import { Deliveries } from './inbound/deliveries.tsx'
import { formatRoute } from './inbound/format.ts'
import { InboundStatus } from './inbound/marks.tsx'
import { toProof } from './inbound/proof.ts'
import { useAllRoutes } from './inbound/queries.ts'
import { Source } from './inbound/source.tsx'
import { findClaimedAddress, toVisible } from './inbound/visible.ts'

const MAX_TITLE_LENGTH = 200

const DELIVERY_REFRESH_MS = 5000

const route = getRouteApi('/inbound/$id')

export default function InboundEmailScreen() {
  const { id } = route.useParams()
  const query = useData(read.inboundEmails.get(id))
  const back = useBack({ to: '/inbound' })
  return (
    <RecordPage
      title={query.data ? toTitle(query.data.subject, MAX_TITLE_LENGTH) : 'Received mail'}
      list={{ to: '/inbound' }}
      listName="All received mail"
      query={query}
      missing="This account has no received message with this id. It may have been deleted."
      onEscape={back}
    >
      {(email) => <EmailView key={email.id} email={email} onDeleted={back} />}
    </RecordPage>
  )
}

interface EmailProps {
  readonly email: InboundEmail
}

function EmailView({ email, onDeleted }: EmailProps & { onDeleted(): void }) {
  const checked = { authentication: email.authentication, from: email.from_address }
  const { tone, word, sentence } = toProof(checked)
  const claimed = findClaimedAddress(email.from_header, email.from_address)
  return (
    <Stack gap="lg">
      <Paper withBorder p="md">
        <Stack gap="xs">
          <Group gap="lg">
            <StatusLabel tone={tone}>Sender: {word.toLowerCase()}</StatusLabel>
            <InboundStatus status={email.status} />
          </Group>
          <Text size="lg" data-sentence="">
            {sentence}
          </Text>
          {claimed !== undefined && (
            <StatusLabel tone="warning">Its name shows another address, {claimed}, which it is not from.</StatusLabel>
          )}
          <Fate email={email} />
          <Group>
            <DeleteButton
              label="Delete"
              size="xs"
              title="Delete this message?"
              confirm="Delete the message"
              remove={() => api.inboundEmails.delete(email.id)}
              refreshes={[['inboundEmails', 'list']]}
              onDeleted={onDeleted}
            >
              <Text>It is deleted with its attachments, and waiting deliveries of it end. This cannot be undone.</Text>
            </DeleteButton>
          </Group>
        </Stack>
      </Paper>
      <Section title="Message">
        <EmailFacts email={email} />
      </Section>
      <Section title="Content">
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
      </Section>
      <Section title="Attachments">
        <Attachments
          attachments={email.attachments}
          toUrl={(index) => read.inboundEmails.getAttachment(email.id, String(index)).url}
        />
      </Section>
      <Section title="Route and deliveries">
        <RouteAndDeliveries email={email} />
      </Section>
      <Section title="Checks of the sender">
        <Checks message={checked} />
      </Section>
    </Stack>
  )
}

function Fate({ email: { status, error_message: error, webhook_delivered_at: at } }: EmailProps) {
  if (status === 'delivered' && at)
    return (
      <Text>
        It was passed on: the webhook of its route accepted it (<Time iso={at} />
        ).
      </Text>
    )
  if (status === 'failed')
    return (
      <Text>
        It could not be parsed: <bdi>{error ?? 'the reason was not recorded'}</bdi>. Only its headers are shown; the
        source is complete. The operator can have it parsed again with tassis inbound retry.
      </Text>
    )
  if (status === 'no_route')
    return (
      <Text>
        No route matched its address, so it is only stored, and deleted when 1,000 newer ones have come.{' '}
        <TextLink underline="always" to="/inbound/routes/new">
          Create a route
        </TextLink>
      </Text>
    )
  return <Text>It is stored. {error !== null && <bdi>{error}</bdi>}</Text>
}

function EmailFacts({ email }: EmailProps) {
  const { data: domains = [] } = useAllDomains()
  const domain = domains.find(({ id }) => id === email.domain_id)
  return (
    <Facts
      facts={[
        ['From', email.from_header && toVisible(email.from_header)],
        ['To', email.to_header && toVisible(email.to_header)],
        ['Cc', email.cc_header && toVisible(email.cc_header)],
        ['Subject', email.subject],
        ['Received', <Time key="received" iso={email.created_at} />],
        ['Envelope', `from ${toVisible(email.mail_from) || '(nobody)'} to ${email.rcpt_to.map(toVisible).join(', ')}`],
        ['Sent by server', email.source_ip],
        [
          'Domain',
          domain && (
            <TextLink to="/domains/$id" params={{ id: domain.id }}>
              {domain.domain}
            </TextLink>
          ),
        ],
        ['Size', formatBytes(email.size_bytes)],
        ['Message-ID', email.message_id && toVisible(email.message_id)],
        ['Id', email.id],
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
  const others = (
    <Text size="sm" c="dimmed">
      <InlineLink to="/webhooks">Webhooks</InlineLink> that subscribe to email.inbound get it too; their deliveries are
      listed there.
    </Text>
  )
  if (email.route_id === null)
    return (
      <Text>{email.status === 'no_route' ? 'No route matched.' : 'No route matched, or it was deleted since.'}</Text>
    )
  return (
    <Stack gap="sm">
      <Text>
        Matched the route{' '}
        <TextLink underline="always" to="/inbound/routes/$id" params={{ id: email.route_id }}>
          <bdi>{matched ? formatRoute(matched, name) : email.route_id}</bdi>
        </TextLink>
        {matched &&
          (matched.webhook_url ? <>, which posts to {toVisible(matched.webhook_url)}</> : ', which only stores')}
        .
      </Text>
      <QueryView query={query}>
        {({ data }) =>
          data.length === 0 ? (
            <Text>{matched?.webhook_url ? 'No delivery was tried yet.' : 'Nothing was posted for it.'}</Text>
          ) : (
            <Deliveries deliveries={data} hasEmails={false} />
          )
        }
      </QueryView>
      {others}
    </Stack>
  )
}
