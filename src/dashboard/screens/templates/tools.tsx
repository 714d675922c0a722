/** @module What can be done with a saved template besides changing it. */
import { Code, Text } from '@mantine/core'
import { useState } from 'react'
import type { RenderTemplateTextResult, Template } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { useSession } from '../../api/session.tsx'
import { ConfirmDialog, DeleteButton, DialogButton } from '../../parts/dialog.tsx'
import { ButtonLink, TextLink } from '../../parts/links.tsx'
import { ActionLink } from '../../parts/list.tsx'
import { CheckEmail, isVerified, toEmail, useSenders } from './check-email.tsx'
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
  const { query: domains, sorted, field } = useSenders()
  const { user } = useSession()
  const [sentId, setSentId] = useState<string>()
  const [last, setLast] = useState<{ readonly domain?: string }>({})
  return (
    <ConfirmDialog
      title="Test email"
      confirm={sentId === undefined ? 'Send' : 'Send another'}
      error={domains.error}
      isIncomplete={sorted.length === 0}
      fields={[field]}
      initial={last}
      run={({ domain }: { readonly domain: string }) => {
        setLast({ domain })
        return api.emails.send({ ...toEmail(rendered, domain, user.email), tags: ['test-email'], tracking: false })
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
