package xa;

import com.arjuna.ats.arjuna.common.CoreEnvironmentBeanException;
import com.arjuna.ats.arjuna.common.arjPropertyManager;
import com.arjuna.ats.arjuna.common.recoveryPropertyManager;
import com.arjuna.ats.arjuna.recovery.RecoveryManager;
import com.arjuna.ats.internal.jta.recovery.arjunacore.XARecoveryModule;
import com.arjuna.ats.jta.common.jtaPropertyManager;
import com.arjuna.ats.jta.recovery.XAResourceRecoveryHelper;
import com.mysql.cj.jdbc.MysqlXADataSource;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import javax.sql.XAConnection;
import javax.transaction.RollbackException;
import javax.transaction.TransactionManager;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;

/**
 * Narayana drives the farm behind one address as one resource, and beside another one.
 * Arguments: port, folder of its log, and what to do: "work", "crash", "orphan" or "recover".
 */
public final class Manager {
    private static MysqlXADataSource source;
    private static TransactionManager manager;

    public static void main(String[] arguments) throws Exception {
        source = new MysqlXADataSource();
        source.setUrl("jdbc:mysql://127.0.0.1:" + arguments[0] + "/one?allowPublicKeyRetrieval=true&sslMode=DISABLED");
        source.setUser("app");
        source.setPassword("secret");
        configure(arguments[1]);
        manager = com.arjuna.ats.jta.TransactionManager.transactionManager();
        switch (arguments[2]) {
            case "work" -> work();
            case "crash" -> crash();
            case "orphan" -> orphan();
            case "recover" -> recover();
            default -> throw new IllegalArgumentException(arguments[2]);
        }
        System.out.println("done");
        System.exit(0);
    }

    private static void configure(String folder) throws CoreEnvironmentBeanException {
        arjPropertyManager.getCoreEnvironmentBean().setNodeIdentifier("1");
        arjPropertyManager.getObjectStoreEnvironmentBean().setObjectStoreDir(folder);
        com.arjuna.common.internal.util.propertyservice.BeanPopulator
            .getNamedInstance(com.arjuna.ats.arjuna.common.ObjectStoreEnvironmentBean.class, "communicationStore")
            .setObjectStoreDir(folder);
        com.arjuna.common.internal.util.propertyservice.BeanPopulator
            .getNamedInstance(com.arjuna.ats.arjuna.common.ObjectStoreEnvironmentBean.class, "stateStore")
            .setObjectStoreDir(folder);
        recoveryPropertyManager.getRecoveryEnvironmentBean().setRecoveryBackoffPeriod(1);
        recoveryPropertyManager.getRecoveryEnvironmentBean().setRecoveryModuleClassNames(List.of(
            "com.arjuna.ats.internal.arjuna.recovery.AtomicActionRecoveryModule",
            "com.arjuna.ats.internal.jta.recovery.arjunacore.XARecoveryModule"));
        jtaPropertyManager.getJTAEnvironmentBean().setOrphanSafetyInterval(100);
        jtaPropertyManager.getJTAEnvironmentBean().setXaRecoveryNodes(List.of("1"));
        jtaPropertyManager.getJTAEnvironmentBean().setXaResourceOrphanFilterClassNames(List.of(
            "com.arjuna.ats.internal.jta.recovery.arjunacore.JTATransactionLogXAResourceOrphanFilter",
            "com.arjuna.ats.internal.jta.recovery.arjunacore.JTANodeNameXAResourceOrphanFilter"));
    }

    /** Moves one unit from one group to the other; {@code beside} are further resources. */
    private static void move(int id, XAResource... beside) throws Exception {
        XAConnection connection = source.getXAConnection();
        try {
            XAResource farm = connection.getXAResource();
            for (XAResource other : beside) {
                manager.getTransaction().enlistResource(other);
            }
            manager.getTransaction().enlistResource(farm);
            try (Connection plain = connection.getConnection(); Statement statement = plain.createStatement()) {
                statement.executeUpdate("UPDATE one.t SET v = v - 1 WHERE id = " + id);
                statement.executeUpdate("UPDATE two.t SET v = v + 1 WHERE id = " + id);
                manager.getTransaction().delistResource(farm, XAResource.TMSUCCESS);
            }
        } finally {
            closing = connection;
        }
    }

    private static XAConnection closing;

    private static void close() throws SQLException {
        closing.close();
    }

    private static void work() throws Exception {
        // One resource: one phase.
        manager.begin();
        move(0);
        manager.commit();
        close();
        expect(0, 999, 1001);
        manager.begin();
        move(0);
        manager.rollback();
        close();
        expect(0, 999, 1001);
        // Two resources: two phases.
        manager.begin();
        move(1, new Other(Other.How.AGREES));
        manager.commit();
        close();
        expect(1, 999, 1001);
        manager.begin();
        move(1, new Other(Other.How.REFUSES));
        try {
            manager.commit();
            throw new IllegalStateException("the other resource has refused");
        } catch (RollbackException wanted) {
            // As it must be.
        }
        close();
        expect(1, 999, 1001);
        none();
    }

    /** Dies between the phases, when it is decided. */
    private static void crash() throws Exception {
        manager.begin();
        move(4, new Other(Other.How.DIES_IN_COMMIT));
        manager.commit();
    }

    /** Dies before it is decided, when the farm has prepared. */
    private static void orphan() throws Exception {
        manager.begin();
        move(5);
        manager.getTransaction().enlistResource(new Other(Other.How.DIES_IN_PREPARE));
        manager.commit();
    }

    private static void recover() throws Exception {
        RecoveryManager recovery = RecoveryManager.manager(RecoveryManager.DIRECT_MANAGEMENT);
        XAConnection connection = source.getXAConnection();
        for (var module : recovery.getModules()) {
            if (module instanceof XARecoveryModule ours) {
                ours.addXAResourceRecoveryHelper(new XAResourceRecoveryHelper() {
                    @Override
                    public boolean initialise(String name) {
                        return true;
                    }

                    @Override
                    public XAResource[] getXAResources() throws Exception {
                        return new XAResource[] {connection.getXAResource(), new Other(Other.How.AGREES)};
                    }
                });
            }
        }
        for (int pass = 0; pass < 5 && connection.getXAResource().recover(XAResource.TMSTARTRSCAN).length > 0; pass++) {
            recovery.scan();
        }
        expect(4, 999, 1001);
        // Of this one the manager has no decision: it is an orphan, and is rolled back.
        expect(5, 1000, 1000);
        none();
    }

    private static void expect(int id, int one, int two) throws SQLException {
        try (Connection plain = source.getConnection(); Statement statement = plain.createStatement()) {
            for (String name : new String[] {"one", "two"}) {
                int wanted = name.equals("one") ? one : two;
                try (ResultSet rows = statement.executeQuery("SELECT v FROM " + name + ".t WHERE id = " + id)) {
                    rows.next();
                    if (rows.getInt(1) != wanted) {
                        throw new IllegalStateException(name + ", " + id + ": " + rows.getInt(1) + ", not " + wanted);
                    }
                }
            }
        }
    }

    private static void none() throws Exception {
        XAConnection connection = source.getXAConnection();
        int left = connection.getXAResource().recover(XAResource.TMSTARTRSCAN).length;
        connection.close();
        if (left != 0) {
            throw new IllegalStateException(left + " are prepared still");
        }
    }

    /** A resource that has no data. */
    private static final class Other implements XAResource {
        enum How { AGREES, REFUSES, DIES_IN_PREPARE, DIES_IN_COMMIT }

        private final How how;

        Other(How how) {
            this.how = how;
        }

        @Override
        public int prepare(Xid xid) throws XAException {
            if (how == How.REFUSES) {
                throw new XAException(XAException.XA_RBROLLBACK);
            }
            if (how == How.DIES_IN_PREPARE) {
                die();
            }
            return XA_OK;
        }

        @Override
        public void commit(Xid xid, boolean onePhase) {
            if (how == How.DIES_IN_COMMIT) {
                die();
            }
        }

        private static void die() {
            Runtime.getRuntime().halt(3);
        }

        @Override
        public void rollback(Xid xid) {
        }

        @Override
        public void start(Xid xid, int flags) {
        }

        @Override
        public void end(Xid xid, int flags) {
        }

        @Override
        public void forget(Xid xid) {
        }

        @Override
        public Xid[] recover(int flag) {
            return new Xid[0];
        }

        @Override
        public boolean isSameRM(XAResource other) {
            return other == this;
        }

        @Override
        public int getTransactionTimeout() {
            return 0;
        }

        @Override
        public boolean setTransactionTimeout(int seconds) {
            return false;
        }
    }
}
