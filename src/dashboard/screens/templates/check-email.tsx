/** @module Checks what the preview shows before it is sent, and shows what was found. */
import { Stack, Text } from '@mantine/core'
import { useState } from 'react'
import type { CheckEmailsResult, Domain, RenderTemplateTextResult } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { usePage } from '../../api/data.ts'
import { useSession } from '../../api/session.tsx'
import { ConfirmDialog } from '../../parts/dialog.tsx'
import { StateLabel } from '../../parts/status.tsx'
import type { State } from '../../parts/tone.ts'

/** The domains to send from as choices, verified ones first. */
export function useSenders() {
  const query = usePage(read.domains.list({ page: 1 }))
  const sorted = query.data?.data.toSorted((a, b) => Number(isVerified(b)) - Number(isVerified(a))) ?? []
  const options = sorted.map(({ domain }) => ({ value: domain, label: `test@${domain}` }))
  return { query, sorted, field: { name: 'domain', label: 'From', kind: 'choice', options } as const }
}

export const isVerified = ({ status }: Domain): boolean => status === 'verified'

export const toEmail = ({ subject, html_body, text_body }: RenderTemplateTextResult, domain: string, to: string) => ({
  ...{ from: `Test <test@${domain}>`, to, subject: subject ?? '' },
  ...(html_body !== null && { html_body }),
  ...(text_body !== null && { text_body }),
})

interface CheckEmailProps {
  readonly rendered: RenderTemplateTextResult
  onClose(): void
}

export function CheckEmail({ rendered, onClose }: CheckEmailProps) {
  const { query, sorted, field } = useSenders()
  const { user } = useSession()
  const [found, setFound] = useState<CheckEmailsResult>()
  const [last, setLast] = useState<{ readonly domain?: string }>({})
  return (
    <ConfirmDialog
      title="Check before sending"
      confirm={found ? 'Check again' : 'Check'}
      error={query.error}
      isIncomplete={sorted.length === 0}
      fields={[field]}
      initial={last}
      run={({ domain }: { readonly domain: string }) => {
        setLast({ domain })
        return api.emails.check(toEmail(rendered, domain, user.email))
      }}
      staysOpen
      onDone={({ data }) => setFound(data)}
      footer={() => <div role="status">{found && <Found found={found} />}</div>}
      onClose={onClose}
    >
      <Text>Looks at what the preview shows as receivers will. Nothing is sent, and it need not be saved.</Text>
    </ConfirmDialog>
  )
}

const SEVERITIES: Readonly<Record<string, State>> = {
  problems: { word: 'Receivers may reject it or mark it as spam.', tone: 'bad' },
  warnings: { word: 'It can be better.', tone: 'warning' },
  ok: { word: 'Nothing speaks against it.', tone: 'good' },
  problem: { word: 'Problem:', tone: 'bad' },
  warning: { word: 'Warning:', tone: 'warning' },
  info: { word: 'Note:', tone: 'neutral' },
  pass: { word: 'passes', tone: 'good' },
  fail: { word: 'fails', tone: 'bad' },
}

const Severity = ({ name }: { readonly name: string }) => (
  <StateLabel state={SEVERITIES[name] ?? { word: name, tone: 'neutral' }} />
)

function Found({ found: { verdict, findings, authentication, rspamd } }: { readonly found: CheckEmailsResult }) {
  const { dkim_domain: signer, dkim, spf, dmarc } = authentication
  return (
    <Stack gap="sm">
      <Severity name={verdict} />
      {findings.map(({ id, severity, message, advice, where }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: there may be several of a kind
        <div key={`${id} ${index}`}>
          <Severity name={severity} /> {message} {advice}
          {where !== undefined && (
            <Text size="xs" c="dimmed" truncate title={where}>
              <bdi>{where}</bdi>
            </Text>
          )}
        </div>
      ))}
      <div>
        Signed by <bdi>{signer}</bdi>: DKIM <Severity name={dkim} />, SPF <Severity name={spf} />, DMARC{' '}
        <Severity name={dmarc} />
      </div>
      {rspamd && (
        <details>
          <summary>
            Rspamd scores it {rspamd.score} of {rspamd.required}
          </summary>
          {rspamd.symbols.map(({ name, score, description }) => (
            <Text key={name} size="sm">
              {score} · {description ?? name}
            </Text>
          ))}
        </details>
      )}
    </Stack>
  )
}
