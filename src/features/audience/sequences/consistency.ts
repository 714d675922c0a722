/** @module Consistency rules of sequences. */
import { queryRule } from '#platform/db/consistency.ts'
import { CHANGE_KIND, STEP_KIND } from './sequences.ts'

export const sequenceSteps = queryRule({
  rule: 'who is active in a sequence has a next step, nobody else has, and nobody is in a deleted sequence',
  sql: `SELECT id AS person, sequence_id AS sequence FROM sequence_people
    WHERE (ended_at IS NULL) <> EXISTS (SELECT 1 FROM notices WHERE kind = '${STEP_KIND}' AND topic = sequence_people.id)
      OR sequence_id NOT IN (SELECT id FROM sequences UNION SELECT topic FROM notices WHERE kind = '${CHANGE_KIND}')`,
  describe: (r) => `person ${r['person']} of sequence ${r['sequence']} has no next step, or no sequence`,
})
