/** @module What can be done with a saved template besides changing it, such as trying what its preview shows. */
import { Code, Text } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import type { CheckEmailsResult, Domain, RenderTemplateTextResult, Template } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { usePage } from '../../api/data.ts'
import { useSession } from '../../api/session.tsx'
import { ConfirmDialog, DeleteButton, DialogButton } from '../../parts/dialog.tsx'
import { Findings, SEVERITIES } from '../../parts/findings.tsx'
import { ButtonLink, TextLink } from '../../parts/links.tsx'
import { ActionLink } from '../../parts/list.tsx'
import { Notice, StatusLabel } from '../../parts/status.tsx'
import type { State } from '../../parts/tone.ts'
import type { Rendering } from './use-rendered.ts'

interface TemplateToolsProps {
  readonly template: Template
  readonly rendering: Rendering
  /** Set before the screen is left on purpose. */
  readonly isFinished: { current: boolean }
}

export function TemplateTools({ template, rendering, isFinished }: TemplateToolsProps) {
  return (
    <>
      <DialogButton
        label="Check before sending"
        needs="developer"
        reason={findTestObstacle(rendering)}
        variant="default"
      >
        {(close) => rendering.result && <CheckEmail rendered={rendering.result} onClose={close} />}
      </DialogButton>
      <DialogButton label="Send a test email" needs="developer" reason={findTestObstacle(rendering)} variant="default">
        {(close) => rendering.result && <TestEmail rendered={rendering.result} onClose={close} />}
      </DialogButton>
      <ButtonLink to="/templates/$id/versions" params={{ id: template.id }} variant="default">
        Versions
      </ButtonLink>
      <ActionLink needs="developer" variant="default" to="/templates/new" search={{ from: template.id }}>
        Duplicate
      </ActionLink>
      <DeleteButton
        noun="template"
        typed={template.alias}
        remove={() => api.templates.delete(template.id)}
        refreshes={[['templates', 'list']]}
        leadsTo={{ to: '/templates' }}
        onDeleted={() => {
          isFinished.current = true
        }}
      >
        <Text>
          Sends that name the alias <Code>{template.alias}</Code>{' '}
          {template.locale === null
            ? 'and no language that it has are refused from now on.'
            : `in ${template.locale} get it in another language from now on, if there is one.`}{' '}
          Its versions are deleted too. Emails that were made from it stay as they are.
        </Text>
      </DeleteButton>
    </>
  )
}

function findTestObstacle({ result, isCurrent }: Rendering): string | undefined {
  if (!isCurrent || !result) return 'The preview is not up to date.'
  if (result.problems.length > 0) return 'The preview has problems, so it cannot be sent.'
  if (result.subject === null) return 'The template has no subject.'
  return result.html_body === null && result.text_body === null ? 'The template has no HTML and no text.' : undefined
}

interface TryProps {
  readonly rendered: RenderTemplateTextResult
  onClose(): void
}

function TestEmail(props: TryProps) {
  const { user } = useSession()
  return (
    <TryDialog
      {...props}
      title="Test email"
      confirm="Send"
      text={`Sends what the preview shows to your own address, ${user.email}. It need not be saved.`}
      unverified="is not verified yet, so the email is captured in the Sandbox and not sent."
      run={(email) => api.emails.send({ ...email, tags: ['test-email'], tracking: false })}
    >
      {({ id }) => (
        <Text>
          The test email is on its way.{' '}
          <TextLink to="/emails/$id" params={{ id }} target="_blank" underline="always">
            See what happens to it (new tab)
          </TextLink>
        </Text>
      )}
    </TryDialog>
  )
}

const CheckEmail = (props: TryProps) => (
  <TryDialog
    {...props}
    title="Check before sending"
    confirm="Check"
    text="Looks at what the preview shows as receivers will. Nothing is sent, and it need not be saved."
    run={api.emails.check}
  >
    {(found) => <Found found={found} />}
  </TryDialog>
)

const toEmail = ({ subject, html_body, text_body }: RenderTemplateTextResult, domain: string, to: string) => ({
  ...{ from: `Test <test@${domain}>`, to, subject: subject ?? '' },
  ...(html_body !== null && { html_body }),
  ...(text_body !== null && { text_body }),
})

interface TryDialogProps<Result> extends TryProps {
  readonly title: string
  readonly confirm: string
  readonly text: string
  /** What is said of a domain that is not verified, after its name. */
  readonly unverified?: string
  run(email: ReturnType<typeof toEmail>): PromiseLike<{ readonly data: Result }>
  readonly children: (result: Result) => ReactNode
}

const isVerified = ({ status }: Domain): boolean => status === 'verified'

/** Asks from which domain, verified ones first. */
function TryDialog<Result>(props: TryDialogProps<Result>) {
  const { rendered, title, confirm, text, unverified, run, children, onClose } = props
  const { data: { data: domains } = {}, error } = usePage(read.domains.list({ page: 1 }))
  const { user } = useSession()
  const [result, setResult] = useState<Result>()
  const [last, setLast] = useState<{ readonly domain?: string }>({})
  const sorted = domains?.toSorted((a, b) => Number(isVerified(b)) - Number(isVerified(a))) ?? []
  const options = sorted.map(({ domain }) => ({ value: domain, label: `test@${domain}` }))
  return (
    <ConfirmDialog
      title={title}
      confirm={result === undefined ? confirm : `${confirm} again`}
      error={error}
      isIncomplete={sorted.length === 0}
      fields={[{ name: 'domain', label: 'From', kind: 'choice', options }]}
      initial={last}
      run={({ domain }: { readonly domain: string }) => {
        setLast({ domain })
        return run(toEmail(rendered, domain, user.email))
      }}
      staysOpen
      onDone={({ data }) => setResult(data)}
      footer={({ values }) => (
        <>
          {unverified && sorted.some((one) => one.domain === values['domain'] && !isVerified(one)) && (
            <Text size="sm">
              {String(values['domain'])} {unverified}
            </Text>
          )}
          {domains?.length === 0 && (
            <Text>
              There is no domain to send from.{' '}
              <TextLink to="/domains/new" underline="always">
                Add a domain
              </TextLink>
            </Text>
          )}
          <div role="status">{result !== undefined && children(result)}</div>
        </>
      )}
      onClose={onClose}
    >
      <Text>{text}</Text>
    </ConfirmDialog>
  )
}

const VERDICTS: Readonly<Record<CheckEmailsResult['verdict'], State>> = {
  problems: { word: 'Receivers may reject it or mark it as spam.', tone: 'bad' },
  warnings: { word: 'It can be better.', tone: 'warning' },
  ok: { word: 'Nothing speaks against it.', tone: 'good' },
}

function Found({ found: { verdict, findings, authentication, rspamd } }: { readonly found: CheckEmailsResult }) {
  const { dkim_domain: signer, dkim, spf, dmarc } = authentication
  return (
    <>
      <Notice tone={VERDICTS[verdict].tone}>{VERDICTS[verdict].word}</Notice>
      <Findings
        label="Findings"
        findings={findings.map(({ id, severity, message, advice, where }, index) => ({
          key: `${id} ${index}`,
          state: SEVERITIES[severity],
          text: message,
          note: where !== undefined && <bdi>{where}</bdi>,
          advice,
        }))}
      />
      <div className="chips">
        <span>
          Signed by <bdi>{signer}</bdi>:
        </span>
        {Object.entries({ DKIM: dkim, SPF: spf, DMARC: dmarc }).map(([name, result]) => (
          <StatusLabel key={name} tone={result === 'pass' ? 'good' : 'bad'}>
            {name} {result === 'pass' ? 'passes' : 'fails'}
          </StatusLabel>
        ))}
      </div>
      {rspamd && (
        <details className="fold">
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
    </>
  )
}
