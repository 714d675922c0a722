/** @module Deletes a template after its alias was typed. */
import { Code, Text } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import type { TemplateRecord } from '#features/setup/templates/model.ts'
import { useDeleteTemplate } from '../../api/templates.ts'
import { DialogFrame } from '../../parts/dialog.tsx'

interface DeleteTemplateProps {
  readonly template: TemplateRecord
  /** Called before the screen is left. */
  onDeleted(): void
  onClose(): void
}

export function DeleteTemplate({ template, onDeleted, onClose }: DeleteTemplateProps) {
  const remove = useDeleteTemplate(template.id)
  const navigate = useNavigate()
  const onSuccess = () => {
    onDeleted()
    void navigate({ to: '/templates' })
  }
  return (
    <DialogFrame
      title="Delete this template?"
      confirm="Delete"
      isDangerous
      work={remove}
      typed={template.alias}
      onConfirm={() => remove.mutate(undefined, { onSuccess })}
      onClose={onClose}
    >
      <Text>
        Sends that name the alias <Code>{template.alias}</Code> are refused from now on. Its versions are deleted too.
        Emails that were made from it stay as they are.
      </Text>
    </DialogFrame>
  )
}
