/** @module One captured message: its content and its links, in tabs. */
import { Anchor, Button, Group, Stack, Text, Title } from '@mantine/core'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import type { CapturedEmail } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { isMissing, useData } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { ContentTabs } from '../../parts/content-tabs.tsx'
import { FormError, SmallAction } from '../../parts/form.tsx'
import { LongText } from '../../parts/long-text.tsx'
import { MailFrame } from '../../parts/mail-frame.tsx'
import { Facts, QueryView, useEscape } from '../../parts/page.tsx'
import { Time } from '../../parts/time.tsx'
import { CAPTURED_TABS } from '../filters.ts'
import { LinkCheckPanel } from './links.tsx'
import { useMarkRead } from './queries.ts'

const route = getRouteApi('/sandbox/$id')

export function MessageView({ id, onDelete }: { readonly id: string; onDelete(subject: string): void }) {
  const navigate = route.useNavigate()
  const query = useData(read.capturedEmails.get(id), { staleTime: 300_000 })
  useEscape(() => void navigate({ to: '/sandbox', search: (before) => ({ ...before, tab: undefined }) as never }))
  return (
    <Stack gap="sm" component="section" aria-label="Message" miw={0}>
      <Anchor
        component={Link}
        to="/sandbox"
        search={((before: Record<string, unknown>) => ({ ...before, tab: undefined })) as never}
        size="sm"
        className="inbox-back"
      >
        All captured mail
      </Anchor>
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
  const { tab } = route.useSearch()
  const navigate = route.useNavigate()
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
      <Title order={2} size="h4" style={{ overflowWrap: 'anywhere' }} lineClamp={4} title={email.subject}>
        <bdi>{email.subject || '(no subject)'}</bdi>
      </Title>
      <Facts
        facts={[
          ['From', email.from],
          ['To', email.rcpt_to.join(', ')],
          ['Captured', <Time key="captured" iso={email.received_at} isExact />],
        ]}
      />
      <Group gap="xs">
        <SmallAction
          reason={roleReason}
          onClick={() => {
            isMarked.current = true
            mark.mutate(!email.read)
          }}
        >
          {email.read ? 'Mark as unread' : 'Mark as read'}
        </SmallAction>
        <SmallAction reason={roleReason} onClick={onDelete}>
          Delete
        </SmallAction>
        <Button component={Link} to={`/emails/${email.id}`} size="xs" variant="default">
          What happened to it
        </Button>
      </Group>
      <FormError error={mark.error} />
      {email.truncated && (
        <Text size="sm">
          This message is large: text, HTML and links are those of its first MiB. Its source has all of it.
        </Text>
      )}
      <ContentTabs
        tabs={CAPTURED_TABS}
        current={tab ?? (email.html !== null ? 'html' : 'text')}
        notes={email.attachments.length > 0 ? { attachments: ` (${email.attachments.length})` } : {}}
        onTab={(next) =>
          void navigate({
            search: ((before: Record<string, unknown>) => ({ ...before, tab: next })) as never,
            replace: true,
            resetScroll: false,
          })
        }
      >
        {(name) => <Panel name={name} email={email} />}
      </ContentTabs>
    </>
  )
}

function Panel({ name, email }: { readonly name: (typeof CAPTURED_TABS)[number]; readonly email: CapturedEmail }) {
  switch (name) {
    case 'html':
      return email.html === null ? <NoBody name="HTML" email={email} /> : <Preview email={email} html={email.html} />
    case 'text':
      return email.text === null ? (
        <NoBody name="text" email={email} />
      ) : (
        <LongText label="Text of the email" text={email.text} />
      )
    case 'headers':
      return <Headers headers={email.headers} />
    case 'source':
      return <Source id={email.id} />
    case 'attachments':
      return <Attachments email={email} />
    case 'links':
      return <LinkCheckPanel id={email.id} />
  }
}

const NoBody = ({ name, email }: { readonly name: 'HTML' | 'text'; readonly email: CapturedEmail }) => (
  <Text>{email.truncated ? `The first MiB of this email has no ${name}.` : `This email has no ${name}.`}</Text>
)

const WIDTHS = [
  ['desktop', 'Desktop'],
  ['phone', 'Phone, 375 px'],
] as const

/** The message as wide as on a phone, or as the window allows. */
function Preview({ email, html }: { readonly email: CapturedEmail; readonly html: string }) {
  const [width, setWidth] = useState<'desktop' | 'phone'>('desktop')
  return (
    <Stack gap="xs">
      <Group gap="xs" role="group" aria-label="Width of the preview">
        {WIDTHS.map(([name, label]) => (
          <Button
            key={name}
            size="compact-sm"
            variant={name === width ? 'light' : 'default'}
            aria-pressed={name === width}
            onClick={() => setWidth(name)}
          >
            {label}
          </Button>
        ))}
      </Group>
      <div className={width === 'phone' ? 'phone-preview' : undefined}>
        <MailFrame html={html} src={`/app/captured/${email.id}/html`} />
      </div>
    </Stack>
  )
}

const Headers = ({ headers }: { readonly headers: CapturedEmail['headers'] }) => (
  <dl className="facts">
    {headers.map(({ name, value }, index) => (
      // biome-ignore lint/suspicious/noArrayIndexKey: a field may occur more than once
      <HeaderField key={index} name={name} value={value} />
    ))}
  </dl>
)

const HeaderField = ({ name, value }: { readonly name: string; readonly value: string }) => (
  <>
    <dt>
      <bdi>{name}</bdi>
    </dt>
    <dd>
      <bdi>{value}</bdi>
    </dd>
  </>
)

function Source({ id }: { readonly id: string }) {
  const query = useData(read.emails.getCaptured(id), { staleTime: 300_000 })
  return <QueryView query={query}>{({ raw }) => <LongText label="Source of the email" text={raw} />}</QueryView>
}

const Attachments = ({ email }: { readonly email: CapturedEmail }) =>
  email.attachments.length === 0 ? (
    <Text>This email has no attachments.</Text>
  ) : (
    <ul className="plain-list">
      {email.attachments.map(({ filename, content_type: type, size }, number) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: its number is its identity
        <li key={number}>
          <Anchor
            href={read.capturedEmails.getAttachment(email.id, String(number)).url}
            download
            underline="always"
            size="sm"
          >
            <bdi>{filename || '(no name)'}</bdi>
          </Anchor>{' '}
          <Text span size="sm" c="dimmed">
            {type}, {size.toLocaleString()} bytes
          </Text>
        </li>
      ))}
    </ul>
  )
