/** @module What can be done with a saved template besides changing it. */
import { Code, Text } from '@mantine/core'
import type { Template } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { DeleteButton, DialogButton } from '../../parts/dialog.tsx'
import { ButtonLink } from '../../parts/links.tsx'
import { ActionLink } from '../../parts/list.tsx'
import { CheckEmail, TestEmail } from './try-email.tsx'
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
