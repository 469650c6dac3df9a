# frozen_string_literal: true

# What the store does about transactions of ActiveRecord: it invalidates after the commit, and may store nothing before it.

module ActiveSupport
  module Cache
    class LarderStore < Store
      module Transactions
        # Stands for a record of a transaction, which runs a block once that is committed.
        class AfterCommit # :nodoc:
          def initialize(&block)
            @block = block
          end

          def trigger_transactional_callbacks?
            true
          end

          def before_committed!(*); end

          # Also if a callback of another record has raised: the transaction is committed.
          def committed!(*, **)
            @block.call
          end

          def rolledback!(*, **); end
        end

        # Removes names and tags once the open transaction of a connection commits; at once if none is open. By default the
        # connection is that of ActiveRecord::Base. After a rollback nothing is removed.
        #
        # A removal before the commit is too early: another request misses, loads the row as it was before, and stores that
        # after the removal.
        def invalidate_on_commit(*names, tags: [], connection: nil, **options)
          tags = Array(tags)
          invalidate = lambda do
            delete_multi(names, options) unless names.empty?
            invalidate_tags(*tags) unless tags.empty?
          end
          connection ||= ::ActiveRecord::Base.connection if defined?(::ActiveRecord::Base)
          return invalidate.call unless connection&.current_transaction&.joinable?

          connection.add_transaction_record(AfterCommit.new(&invalidate))
        end

        private
          # Whether a block may read rows that are not committed. Then no other caller gets its value either.
          def uncommitted?
            return false if @store_in_transaction || !defined?(::ActiveRecord::Base)

            ::ActiveRecord::Base.connection_handler.connection_pool_list.any? do |pool|
              # A transaction of a test around everything is not joinable.
              pool.active_connection?&.current_transaction&.joinable?
            end
          end
      end
    end
  end
end
