/** @module What can be done with a saved template besides changing it. */
import { Button, Code, Group, Text } from '@mantine/core'
import { Link, useNavigate } from '@tanstack/react-router'
import type { Template } from '#client/api.ts'
import { api } from '../../api/client.ts'
import { useAllowed } from '../../api/session.tsx'
import { DeleteButton, DialogButton, SmallAction } from '../../parts/form.tsx'
import { TestEmail } from './test-email.tsx'
import type { Rendering } from './use-rendered.ts'

interface TemplateToolsProps {
  readonly template: Template
  readonly rendering: Rendering
  /** Set before the screen is left on purpose. */
  readonly isFinished: { current: boolean }
}

export function TemplateTools({ template, rendering, isFinished }: TemplateToolsProps) {
  const reason = useAllowed('developer')
  const navigate = useNavigate()
  return (
    <Group gap="xs">
      <DialogButton
        label="Send a test email"
        reason={reason ?? findTestObstacle(rendering)}
        variant="default"
        size="xs"
      >
        {(close) => rendering.result && <TestEmail rendered={rendering.result} onClose={close} />}
      </DialogButton>
      <Button component={Link} to={`/templates/${template.id}/versions`} variant="default" size="xs">
        Versions
      </Button>
      <SmallAction reason={reason} onClick={() => navigate({ to: '/templates/new', search: { from: template.id } })}>
        Duplicate
      </SmallAction>
      <DeleteButton
        label="Delete"
        size="xs"
        title="Delete this template?"
        confirm="Delete"
        typed={template.alias}
        remove={() => api.templates.delete(template.id)}
        refreshes={[['templates', 'list']]}
        onDeleted={() => {
          isFinished.current = true
          return navigate({ to: '/templates' })
        }}
      >
        <Text>
          Sends that name the alias <Code>{template.alias}</Code> are refused from now on. Its versions are deleted too.
          Emails that were made from it stay as they are.
        </Text>
      </DeleteButton>
    </Group>
  )
}

function findTestObstacle({ result, isCurrent }: Rendering): string | undefined {
  if (!isCurrent || !result) return 'The preview is not up to date.'
  if (result.problems.length > 0) return 'The preview has problems, so it cannot be sent.'
  if (result.subject === null) return 'The template has no subject.'
  return result.html_body === null && result.text_body === null ? 'The template has no HTML and no text.' : undefined
}
