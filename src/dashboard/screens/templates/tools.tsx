/** @module What can be done with a saved template besides changing it. */
import { Code, Text } from '@mantine/core'
import { useState } from 'react'
import type { Domain, RenderTemplateTextResult, Template } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { usePage } from '../../api/data.ts'
import { useSession } from '../../api/session.tsx'
import { ConfirmDialog, DeleteButton, DialogButton } from '../../parts/dialog.tsx'
import { ButtonLink, TextLink } from '../../parts/links.tsx'
import { ActionLink } from '../../parts/list.tsx'
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
          Sends that name the alias <Code>{template.alias}</Code> are refused from now on. Its versions are deleted too.
          Emails that were made from it stay as they are.
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

function TestEmail({ rendered, onClose }: { readonly rendered: RenderTemplateTextResult; onClose(): void }) {
  const domains = usePage(read.domains.list({ page: 1 }))
  const { user } = useSession()
  const [sentId, setSentId] = useState<string>()
  const [last, setLast] = useState<{ readonly domain?: string }>({})
  const sorted = domains.data?.data.toSorted((a, b) => Number(isVerified(b)) - Number(isVerified(a))) ?? []
  const { subject, html_body, text_body } = rendered
  return (
    <ConfirmDialog
      title="Test email"
      confirm={sentId === undefined ? 'Send' : 'Send another'}
      error={domains.error}
      isIncomplete={sorted.length === 0}
      fields={[{ name: 'domain', label: 'From', kind: 'choice', options: sorted.map((one) => toOption(one.domain)) }]}
      initial={last}
      run={({ domain }: { readonly domain: string }) => {
        setLast({ domain })
        return api.emails.send({
          from: `Test <test@${domain}>`,
          to: user.email,
          subject: subject ?? '',
          tags: ['test-email'],
          tracking: false,
          ...(html_body !== null && { html_body }),
          ...(text_body !== null && { text_body }),
        })
      }}
      staysOpen
      onDone={({ data }) => setSentId(data.id)}
      footer={({ values }) => (
        <>
          {sorted.some((one) => one.domain === values['domain'] && !isVerified(one)) && (
            <Text size="sm">
              {String(values['domain'])} is not verified yet, so the email is captured in the Sandbox and not sent.
            </Text>
          )}
          {domains.data?.data.length === 0 && (
            <Text>
              There is no domain to send from.{' '}
              <TextLink to="/domains/new" underline="always">
                Add a domain
              </TextLink>
            </Text>
          )}
          <div role="status">
            {sentId !== undefined && (
              <Text>
                The test email is on its way.{' '}
                <TextLink to="/emails/$id" params={{ id: sentId }} target="_blank" underline="always">
                  See what happens to it (new tab)
                </TextLink>
              </Text>
            )}
          </div>
        </>
      )}
      onClose={onClose}
    >
      <Text>
        Sends what the preview shows to your own address, <bdi>{user.email}</bdi>. It need not be saved.
      </Text>
    </ConfirmDialog>
  )
}

const toOption = (domain: string) => ({ value: domain, label: `test@${domain}` })

const isVerified = ({ status }: Domain): boolean => status === 'verified'
