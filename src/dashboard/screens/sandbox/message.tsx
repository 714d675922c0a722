/** @module One captured message: its content and its links, in tabs. */
import { Code, Group, Stack, Text, Title } from '@mantine/core'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { useEffect, useRef } from 'react'
import type { CapturedEmail, CheckCapturedEmailLinksResult } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { isMissing, readAgain, useChange, useData } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { ActionButton, SmallAction } from '../../parts/buttons.tsx'
import { FormError } from '../../parts/form.tsx'
import { ButtonLink, TextLink } from '../../parts/links.tsx'
import { LongText } from '../../parts/long-text.tsx'
import { MessageContent } from '../../parts/message-content.tsx'
import { Facts, QueryView, useEscape } from '../../parts/page.tsx'
import { StateLabel } from '../../parts/status.tsx'
import { type Column, column, DataTable } from '../../parts/table.tsx'
import { Time } from '../../parts/time.tsx'
import type { State } from '../../parts/tone.ts'
import { CAPTURED_TABS } from '../filters.ts'
import { Attachments } from '../inbound/marks.tsx'

const route = getRouteApi('/sandbox/$id')

/** All lists, and the number of unread emails. */
export const LISTS = ['capturedEmails', 'list'] as const

export function MessageView({ id, onDelete }: { readonly id: string; onDelete(subject: string): void }) {
  const navigate = route.useNavigate()
  const query = useData(read.capturedEmails.get(id), { staleTime: 300_000 })
  useEscape(() => void navigate({ to: '/sandbox', search: ({ tab: _, ...before }) => before }))
  return (
    <Stack gap="sm" component="section" aria-label="Message" miw={0}>
      <TextLink to="/sandbox" search={({ tab: _, ...before }) => before} className="inbox-back">
        All captured mail
      </TextLink>
      {query.data === undefined && isMissing(query.error) ? (
        <Text>
          No captured message of this email is stored: it may have been deleted, or belong to another account. Captured
          mail is deleted by age.
        </Text>
      ) : (
        <QueryView query={query}>
          {(email) => <Message email={email} onDelete={() => onDelete(email.subject)} />}
        </QueryView>
      )}
    </Stack>
  )
}

function Message({ email, onDelete }: { readonly email: CapturedEmail; onDelete(): void }) {
  const roleReason = useAllowed('developer')
  const mark = useMarkRead(email.id)
  // Once for each opening: an email that is marked as unread stays so.
  const isMarked = useRef(false)
  useEffect(() => {
    if (isMarked.current || roleReason !== undefined || email.read) return
    isMarked.current = true
    mark.mutate(true)
  }, [email, roleReason, mark.mutate])
  return (
    <>
      <div className="section-head">
        <Title order={2} size="h4" style={{ overflowWrap: 'anywhere' }} lineClamp={4} title={email.subject}>
          <bdi>{email.subject || '(no subject)'}</bdi>
        </Title>
        <Group gap="xs">
          <SmallAction
            reason={roleReason}
            onClick={() => {
              isMarked.current = true
              mark.mutate(!email.read)
            }}
            label={email.read ? 'Mark as unread' : 'Mark as read'}
          />
          <SmallAction reason={roleReason} onClick={onDelete} label="Delete" />
          <ButtonLink to="/emails/$id" params={{ id: email.id }} size="xs" variant="default" name="See the email" />
        </Group>
      </div>
      <Facts
        facts={[
          ['From', email.from],
          ['To', email.rcpt_to.join(', ')],
          ['Captured', <Time key="captured" iso={email.received_at} isRelative />],
        ]}
      />
      <FormError error={mark.error} />
      {email.truncated && (
        <Text size="sm">
          This message is large: text, HTML and links are those of its first MiB. Its source has all of it.
        </Text>
      )}
      <MessageContent
        tabs={CAPTURED_TABS}
        html={email.html}
        text={email.text}
        frame={`/app/captured/${email.id}/html`}
        notes={email.attachments.length > 0 ? { attachments: ` (${email.attachments.length})` } : {}}
        panels={{
          headers: () => (
            <LongText
              label="Headers of the email"
              text={email.headers.map(({ name, value }) => `${name}: ${value}`).join('\n')}
            />
          ),
          source: () => <Source id={email.id} />,
          attachments: () => (
            <Attachments
              attachments={email.attachments}
              toUrl={(index) => read.capturedEmails.getAttachment(email.id, String(index)).url}
            />
          ),
          links: () => <LinkCheckPanel id={email.id} />,
        }}
      />
    </>
  )
}

function useMarkRead(id: string) {
  const queries = useQueryClient()
  return useMutation({
    mutationFn: async (isRead: boolean) => await api.capturedEmails.update(id, { read: isRead }),
    onSuccess: ({ data: { read: isRead } }) => {
      // The response is a summary, without the parts of the message.
      queries.setQueryData<{ readonly data: CapturedEmail }>(
        read.capturedEmails.get(id).queryKey,
        (before) => before && { data: { ...before.data, read: isRead } },
      )
      // A list that was being read when the email was marked may still have it as it was.
      readAgain(queries, LISTS)
    },
  })
}

function Source({ id }: { readonly id: string }) {
  const query = useData(read.emails.getCaptured(id), { staleTime: 300_000 })
  return <QueryView query={query}>{({ raw }) => <LongText label="Source of the email" text={raw} />}</QueryView>
}

type CheckedLink = CheckCapturedEmailLinksResult['links'][number]

const RESULTS: Readonly<Record<CheckedLink['result'], State>> = {
  ok: { word: 'Works', tone: 'good' },
  redirected: { word: 'Redirects', tone: 'good' },
  broken: { word: 'Broken', tone: 'bad' },
  unreachable: { word: 'Unreachable', tone: 'bad' },
  skipped: { word: 'Not requested', tone: 'neutral' },
}

const COLUMNS: readonly Column<CheckedLink>[] = [
  column('Link', { isWrapped: true }, ({ url }) => <Code>{url}</Code>),
  column('Result', { width: '9rem', phone: 'aside' }, ({ result }) => <StateLabel state={RESULTS[result]} />),
  column('Details', { width: '40%', isWrapped: true, phone: 'bare' }, (link) => <LinkDetails link={link} />),
]

const LinkDetails = ({ link: { status, final_url: leadsTo, reason } }: { readonly link: CheckedLink }) => (
  <>
    {status !== null && <div>Status {status}</div>}
    {leadsTo !== null && (
      <div>
        Leads to <Code>{leadsTo}</Code>
      </div>
    )}
    {reason !== null && <div>{reason}</div>}
  </>
)

function LinkCheckPanel({ id }: { readonly id: string }) {
  const check = useChange(() => api.capturedEmails.checkLinks(id))
  const { isPending, error } = check
  const data = check.data?.data
  return (
    <Stack gap="sm" align="stretch">
      <Text size="sm" maw={720}>
        Each link is requested once, by this server; the servers at the links learn its address. A link that works only
        once, such as one for a new password, is used up. Links that unsubscribe, private addresses and pages of this
        server are left out.
      </Text>
      <ActionButton
        needs="developer"
        loading={isPending}
        onClick={() => check.mutate()}
        style={{ alignSelf: 'flex-start' }}
        variant="default"
        label={data ? 'Check again' : 'Check the links'}
      />
      <FormError error={error} />
      <Text role="status" size="sm">
        {data && summarise(data.links)}
        {data?.truncated && ' The message has more links; only the first are checked.'}
      </Text>
      {data && data.links.length > 0 && (
        <DataTable label="Links" columns={COLUMNS} rows={data.links} toKey={({ url }) => url} />
      )}
    </Stack>
  )
}

function summarise(links: readonly CheckedLink[]): string {
  if (links.length === 0) return 'The message has no links to the web.'
  const bad = links.filter(({ result }) => result === 'broken' || result === 'unreachable').length
  const skipped = links.filter(({ result }) => result === 'skipped').length
  return [
    `${links.length} ${links.length === 1 ? 'link' : 'links'}:`,
    bad === 0 ? 'none is broken' : `${bad} do not work`,
    skipped > 0 ? `, ${skipped} not requested.` : '.',
  ]
    .join(' ')
    .replace(/ ([,.])/g, '$1')
}
